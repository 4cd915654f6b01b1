package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
)

func put(t *testing.T, s *Store, key string) {
	t.Helper()
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, s *Store) storage.Collection {
	t.Helper()
	c, err := s.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listed(t *testing.T, s *Store, prefix string) (infos []storage.Info) {
	t.Helper()
	for info, err := range s.List(t.Context(), prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	return infos
}

func keys(infos []storage.Info) (keys []string) {
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys
}

// A writer of another process renews an object at any moment of its deletion: either the object stays, or
// the writer is told to try again.
func TestDelete_BesideARenewal(t *testing.T) {
	for i := range 4 {
		versioned, leased := i%2 == 1, i/2 == 1
		end := 40 * time.Second
		if leased {
			end = 125 * time.Second
		}
		for after := time.Duration(0); after < end; after += 1700 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.limits.Versioned, m.limits.ConditionalDelete = versioned, versioned
				a, b := m.store(t), m.store(t)
				put(t, a, "/r/link")
				time.Sleep(time.Hour)
				if leased {
					put(t, b, "/other")
				}
				m.failWith(func(method, key string) error { // a request takes effect late
					if key == "root/r/link" {
						time.Sleep(map[string]time.Duration{"COPY": 9 * time.Second, "DELETE": 8 * time.Second}[method])
					}
					return nil
				})
				c := collect(t, a)
				infos := listed(t, a, "/r")
				done := make(chan []storage.Info)
				go func() {
					time.Sleep(storage.AttemptLimit - time.Second)
					kept, err := c.Delete(t.Context(), infos)
					if err != nil {
						t.Errorf("Delete: %v", err)
					}
					done <- kept
				}()
				time.Sleep(after)
				attempt := b.Begin()
				_, err := storage.Rely(t.Context(), b, attempt, "/r/link")
				kept := <-done
				c.Close()
				_, gone := a.Stat(t.Context(), "/r/link")
				if relied := err == nil; relied != (gone == nil) || relied != (len(kept) == 1) {
					t.Errorf("renewed %v after the objects were listed, versioned %v, leased before %v: %v; then it is gone: %v; kept %v", after, versioned, leased, err, gone, keys(kept))
				}
				if err != nil && !errors.Is(err, storage.ErrNotExist) && !errors.Is(err, storage.ErrTemporary) {
					t.Errorf("renewal: %v", err)
				}
				synctest.Wait() // for a renewal of the lease
				_ = b.Close()
				if left := m.below("root/.slipway/"); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}
}

func (m *memory) below(prefix string) (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// What a collection that died has listed is believed until its deletions can't come any more.
func TestListOfADeadCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/link")
		time.Sleep(time.Hour)
		if _, err := a.lists.publish(t.Context(), listed(t, a, "/r")); err != nil {
			t.Fatal(err)
		}
		_, err := b.OpenUpload(t.Context(), "/r/_uploads/1/data", storage.UploadOptions{Create: true, Final: "/r/link"})
		if !errors.Is(err, storage.ErrTemporary) {
			t.Errorf("an upload of what is being deleted is begun: %v", err)
		}
		for _, key := range []string{"/r/link", "/r/other"} {
			begun := time.Now()
			err := b.Apply(t.Context(), b.Begin(), storage.Stage{{Key: key, Content: []byte("x")}})
			if listed := key == "/r/link"; listed != errors.Is(err, storage.ErrTemporary) || !listed && err != nil || time.Since(begun) > storage.AttemptLimit {
				t.Errorf("%s: %v after %v", key, err, time.Since(begun))
			}
		}
		time.Sleep(listLife + m.limits.MaxLate + 2*storage.ClockError)
		put(t, b, "/r/link")
		time.Sleep(time.Hour)
		collect(t, a).Close()
		if left := m.below("root/.slipway/"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A composed object is renewed by a stamp, which nobody sees and which goes with it.
func TestStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		put(t, s, "/b/data")
		put(t, s, "/b/other")
		m.compose("root/b/data")
		time.Sleep(time.Hour)
		if _, err := storage.Rely(t.Context(), s, s.Begin(), "/b/data"); err != nil {
			t.Fatal(err)
		}
		infos := listed(t, s, "/b")
		info, err := s.Stat(t.Context(), "/b/data")
		if err != nil || len(infos) != 2 || infos[0] != info || time.Since(info.Modified) > time.Minute {
			t.Errorf("renewed it is %+v, %v, listed %+v", info, err, infos)
		}
		if (*storage.Attempt).Stale(s.Begin(), info) {
			t.Error("renewed it is stale")
		}
		time.Sleep(time.Hour)
		c := collect(t, s)
		defer c.Close()
		if kept, err := c.Delete(t.Context(), infos); err != nil || len(kept) != 0 {
			t.Errorf("kept %v, %v", keys(kept), err)
		}
		if left := m.below("root/b/"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// More objects than a list holds, and more than are deleted while it is believed.
func TestDelete_Many(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		const n = maxListed + 500
		for i := range n {
			m.objects[fmt.Sprintf("root/r/%05d", i)] = stored{Info: Info{Key: fmt.Sprintf("root/r/%05d", i), Modified: m.Now(), Version: "v"}}
		}
		time.Sleep(time.Hour)
		c := collect(t, s)
		defer c.Close()
		m.failWith(func(method, _ string) error {
			if method == "DELETE" {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
		if kept, err := c.Delete(t.Context(), listed(t, s, "/r")); err != nil || len(kept) != 0 || len(m.below("root/r/")) != 0 {
			t.Errorf("kept %d, %v, left %d", len(kept), err, len(m.below("root/r/")))
		}
	})
}

// On a bucket that takes no writes deletions and collections work.
func TestFullBucket(t *testing.T) {
	for name, limit := range map[string]func(*Limits){
		"MinIO":            func(*Limits) {},
		"all conditions":   func(l *Limits) { l.ConditionalDelete = true },
		"versions":         func(l *Limits) { l.ConditionalDelete, l.Versioned = true, true },
		"as commands open": func(l *Limits) { l.ConditionalPut, l.ConditionalDelete = false, false },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { freeFullBucket(t, limit) }) })
	}
}

func freeFullBucket(t *testing.T, limit func(*Limits)) {
	m := newMemory()
	limit(&m.limits)
	before := m.store(t)
	for _, key := range []string{"/r/tag", "/r/tag2", "/r/garbage", "/r/more"} {
		put(t, before, key)
	}
	time.Sleep(time.Hour)
	m.failWith(func(method, _ string) error {
		if !slices.Contains([]string{"DELETE", "HEAD", "LIST"}, method) {
			return fmt.Errorf("%w: XMinioStorageFull", storage.ErrNoSpace)
		}
		return nil
	})
	if m.limits.ConditionalPut {
		if found, err := Probe(t.Context(), NewClient(m, "root", m.limits, Timing{})); !errors.Is(err, storage.ErrNoSpace) {
			t.Errorf("a probe of a full bucket finds %+v, %v", found, err)
		}
	}
	s := m.store(t)
	unlock, err := s.Lock(t.Context(), "schedule-gc", false)
	if err != nil {
		t.Fatalf("a schedule's lock: %v", err)
	}
	unlock()
	info, err := s.Stat(t.Context(), "/r/tag")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []storage.Change{{Key: "/r/tag", Delete: true, If: storage.IfVersion(info.Version)}, {Key: "/r/tag2", Delete: true}} {
		if err := s.Apply(t.Context(), nil, storage.Stage{c}); err != nil {
			t.Errorf("deletion: %v", err)
		}
	}
	c := collect(t, s)
	defer c.Close()
	if kept, err := c.Delete(t.Context(), listed(t, s, "/r")); err != nil || len(kept) != 0 || len(m.below("")) != 0 {
		t.Errorf("kept %v, %v, left %q", keys(kept), err, m.below(""))
	}
}

// On a full bucket a collection can't take the lock, and the one of a collection that died long ago doesn't date it.
func TestFullBucket_OldLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		if _, err := s.Put(t.Context(), lockPrefix+storage.LockCollector, holder(), &WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		put(t, s, "/r/garbage")
		time.Sleep(time.Hour)
		m.failWith(func(method, _ string) error {
			if method == "PUT" {
				return storage.ErrNoSpace
			}
			return nil
		})
		begun := time.Now()
		c := collect(t, s)
		defer c.Close()
		if age := begun.Sub(c.Start()); age > time.Minute {
			t.Errorf("a collection starts %v ago", age)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it waits %v beside no process", took)
		}
	})
}

// A right that the account lacks has a name, and failures that may pass decide nothing.
func TestProbe_NamesRights(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		err    error
		want   string
	}{
		"no write":    {"PUT", storage.ErrDenied, "the account lacks the right put"},
		"no read":     {"HEAD", storage.ErrDenied, "the account lacks the right get"},
		"no deletion": {"DELETE", storage.ErrDenied, ""},
		"busy":        {"PUT", &Trouble{Err: errors.New("503")}, "503"},
		"full":        {"PUT", storage.ErrNoSpace, "no space"},
		"unknown":     {"PUT", errors.New("418"), "418"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.limits.ConditionalDelete = true
				m.failWith(func(method, _ string) error {
					if method == tt.method {
						return tt.err
					}
					return nil
				})
				f, err := Probe(t.Context(), NewClient(m, "", m.limits, Timing{}))
				if tt.want == "" {
					if err != nil || !f.ConditionalPut || f.NoDelete == nil || !strings.Contains(f.NoDelete.Error(), "the account lacks the right delete") {
						t.Errorf("found %+v, %v", f, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("found %+v, %v, want %s", f, err, tt.want)
				}
			})
		})
	}
}

// A renewal whose answer is lost is a renewal, also where it has changed the version.
func TestRenew_LostAnswer(t *testing.T) {
	for _, versioned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.limits.Versioned, m.limits.ConditionalDelete = versioned, versioned
			s := m.store(t)
			put(t, s, "/r/link")
			time.Sleep(time.Hour)
			tries := 0
			m.lost = func(method string) bool {
				if method == "COPY" {
					tries++
				}
				return tries == 1
			}
			if _, err := storage.Rely(t.Context(), s, s.Begin(), "/r/link"); err != nil {
				t.Errorf("versioned %v: %v", versioned, err)
			}
			if info, err := s.Stat(t.Context(), "/r/link"); err != nil || time.Since(info.Modified) > time.Minute || tries != 2 {
				t.Errorf("versioned %v: dated %v after %d tries, %v", versioned, info.Modified, tries, err)
			}
		})
	}
}

// What a collection is deleting isn't relied on because it is fresh: the writer that renewed it last may have
// come too late.
func TestApply_ReliesOnListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/link")
		withdraw, err := a.lists.publish(t.Context(), listed(t, a, "/r"))
		if err != nil {
			t.Fatal(err)
		}
		push := func() error {
			attempt := b.Begin()
			if _, err := storage.Rely(t.Context(), b, attempt, "/r/link"); err != nil {
				return err
			}
			return b.Apply(t.Context(), attempt, storage.Stage{{Key: "/r/manifest", Content: []byte("x")}})
		}
		if err := push(); !errors.Is(err, storage.ErrTemporary) {
			t.Errorf("a push that needs what is being deleted: %v", err)
		}
		withdraw()
		if err := push(); err != nil {
			t.Errorf("a push after the deletion: %v", err)
		}
	})
}

// A collection deletes an object that a late request has renewed after the collection looked. A writer that
// finds the object fresh in between waits, and doesn't find it any more.
func TestRely_OnListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/link")
		time.Sleep(time.Hour)
		c := collect(t, a)
		defer c.Close()
		infos := listed(t, a, "/r")
		deleting := make(chan struct{})
		m.failWith(func(method, key string) error {
			if method == "DELETE" && key == "root/r/link" {
				close(deleting)
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		relied := make(chan struct{})
		go func() {
			defer close(relied)
			<-deleting
			m.renew("root/r/link")
			info, err := storage.Rely(t.Context(), b, b.Begin(), "/r/link")
			if !errors.Is(err, storage.ErrNotExist) {
				t.Errorf("relied on %+v, %v", info, err)
			}
		}()
		if kept, err := c.Delete(t.Context(), infos); err != nil || len(kept) != 0 {
			t.Errorf("kept %v, %v", keys(kept), err)
		}
		<-relied
	})
}

// A collection deletes bytes that a slow upload has replaced after the collection looked.
func TestApply_SlowUploadOfListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.store(t), m.store(t)
		put(t, a, "/r/bytes")
		time.Sleep(time.Hour)
		c := collect(t, a)
		defer c.Close()
		infos := listed(t, a, "/r")
		deleting := make(chan struct{})
		m.failWith(func(method, key string) error {
			switch {
			case method == "PUT" && key == "root/r/bytes": // the list comes later
				<-deleting
			case method == "DELETE" && key == "root/r/bytes":
				close(deleting)
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		u, err := b.OpenUpload(t.Context(), "/up/1", storage.UploadOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		pushed := make(chan error, 1)
		go func() {
			pushed <- b.Apply(t.Context(), nil, storage.Stage{{Key: "/r/bytes", Upload: u}, {Key: "/r/link", Content: []byte("x")}})
		}()
		synctest.Wait()
		if kept, err := c.Delete(t.Context(), infos); err != nil || len(kept) != 0 {
			t.Errorf("kept %v, %v", keys(kept), err)
		}
		if err := <-pushed; !errors.Is(err, storage.ErrTemporary) {
			t.Errorf("the push: %v", err)
		}
	})
}

// A collection that is told to end keeps its list until what it has sent can't come any more.
func TestDelete_Canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		put(t, s, "/r/link")
		time.Sleep(time.Hour)
		c := collect(t, s)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var sent time.Time
		m.failWith(func(method, key string) error {
			if method == "DELETE" && key == "root/r/link" && ctx.Err() == nil {
				sent = time.Now() // the store has the request
				cancel()
				return ctx.Err()
			}
			return nil
		})
		if _, err := c.Delete(ctx, listed(t, s, "/r")); !errors.Is(err, context.Canceled) {
			t.Errorf("Delete: %v", err)
		}
		if since := time.Since(sent); since < m.limits.MaxLate {
			t.Errorf("the list was withdrawn %v after the request", since)
		}
	})
}
