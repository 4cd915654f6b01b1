package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/lease"
	store "slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/storagetest"
)

func TestContract(t *testing.T) {
	for name, o := range map[string]Options{
		"conditions":              {},
		"content versions":        {ContentVersions: true},
		"no conditions":           {NoConditions: true},
		"delete has no condition": {DeleteIgnoresConditions: true},
		"reads fail": {Fault: func() func(Request) Fault {
			random := Random(1, 0.05)
			return func(r Request) Fault {
				if r.Write {
					return None
				}
				return random(r)
			}
		}()},
		"changes without condition fail": {MaxLate: 3 * time.Millisecond, Fault: func() func(Request) Fault {
			random := Random(2, 0.1)
			return func(r Request) Fault {
				if r.Conditional {
					return None // who races with others may then learn that the outcome is unknown
				}
				return random(r)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(*testing.T) (a, b storagetest.Instance) {
				bucket := New(o)
				p := bucket.Process()
				if o.NoConditions {
					only := storagetest.Instance{Store: p, Coordinator: p}
					return only, only
				}
				q := bucket.Process()
				return storagetest.Instance{Store: p, Coordinator: p}, storagetest.Instance{Store: q, Coordinator: q}
			}
			storagetest.Run(t, open)
			if !o.NoConditions {
				storagetest.RunContinued(t, open)
			}
		})
	}
}

// crash is a bucket with short leases and two processes, both of which know the
// state by then.
func crash(t *testing.T) (b *Bucket, p, q *Process) {
	b = New(Options{Lease: 300 * time.Millisecond})
	p, q = b.Process(), b.Process()
	t.Cleanup(func() { p.Close(); q.Close() })
	return b, p, q
}

func begin(t *testing.T, p *Process) storage.Section {
	t.Helper()
	s, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A barrier waits for the lease of a process that is dead or frozen, and no longer.
func TestBarrierWaitsForLeases(t *testing.T) {
	for _, end := range []string{"dead", "frozen"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			_, p, q := crash(t)
			s := begin(t, p)
			deadline := s.Deadline()
			if end == "dead" {
				p.Kill()
			} else {
				p.Freeze()
			}
			begin(t, q).End()
			if err := q.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now := time.Now(); now.Before(deadline) || now.After(deadline.Add(5*time.Second)) {
				t.Errorf("passed %v after the deadline of the section that was open", now.Sub(deadline))
			}
			p.Thaw()
			err := p.Apply(t.Context(), s, storage.Stage{{Key: "/f", Content: []byte("late")}})
			if end == "frozen" && !errors.Is(err, storage.ErrExpired) || err == nil {
				t.Errorf("Apply in a section that was over: %v", err)
			}
			if end == "frozen" {
				begin(t, p).End() // it goes on with another lease
				if err := q.Barrier(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What a dead collector listed is void, and its lock free, once none of its requests
// can be under way, and not before.
func TestListOfDeadCollectorIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine would let a lease run out
		_, p, q := crash(t)
		l, err := p.Lock(t.Context(), storage.CollectorLock)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(t.Context(), storage.Pending{Run: "r", Keys: []string{"/a"}}); err != nil {
			t.Fatal(err)
		}
		for range 50 { // longer than a lease
			s := begin(t, q)
			if !s.Listed("/a") || s.Run() != "r" {
				t.Fatal("the list of a living collector is void")
			}
			s.End()
			time.Sleep(10 * time.Millisecond)
		}
		p.Kill()
		killed := time.Now()
		for {
			s := begin(t, q)
			listed, run := s.Listed("/a"), s.Run()
			s.End()
			if !listed && run == "" {
				break
			}
			if time.Since(killed) > 10*time.Second {
				t.Fatal("the list of a dead collector is not void")
			}
			early, err := q.Lock(t.Context(), storage.CollectorLock)
			if err == nil {
				early.Release()
			}
			if !errors.Is(err, storage.ErrBusy) && time.Since(killed) < 200*time.Millisecond {
				t.Fatalf("its lock is free at once: %v", err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		second, err := q.Lock(t.Context(), storage.CollectorLock)
		if err != nil {
			t.Fatal(err)
		}
		second.Release()
		select {
		case <-l.Lost():
		case <-time.After(5 * time.Second):
			t.Error("who is dead holds the lock still")
		}
	})
}

// An upload goes on in another process behind the last byte that was stored.
func TestUploadSurvivesItsProcess(t *testing.T) {
	_, p, q := crash(t)
	u, err := p.CreateUpload(t.Context(), "/up/data", storage.UploadHint{})
	if err != nil {
		t.Fatal(err)
	}
	stored := strings.Repeat("x", 8<<20) // as much as the spool takes
	for _, part := range []string{stored, "lost"} {
		if _, err := u.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill()
	v, err := q.ResumeUpload(t.Context(), "/up/data")
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := v.Progress(); n != int64(len(stored)) {
		t.Errorf("%d bytes are left, want %d", n, len(stored))
	}
	if err := q.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: v}}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := storage.Read(t.Context(), q, "/blob", int64(len(stored))); err != nil || string(got) != stored {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
}

// After each kind of fault of each request, a change has happened or it has not, and
// nothing comes later.
func TestNothingComesLate(t *testing.T) {
	for _, fault := range []Fault{FailBefore, FailAfter, Late} {
		for _, o := range []Options{{}, {ContentVersions: true}, {DeleteIgnoresConditions: true}} {
			o.MaxLate = 10 * time.Millisecond
			b := New(o)
			p := b.Process()
			for nth := range 6 {
				key := fmt.Sprintf("/tags/%d", nth)
				change := func(content string, c storage.Condition) error {
					n := 0
					b.SetFault(func(r Request) Fault {
						if !r.Write || r.Key != "root"+key {
							return None
						}
						if n++; n-1 == nth%2 {
							return fault
						}
						return None
					})
					defer b.SetFault(nil)
					return p.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content), Delete: content == "", If: c}})
				}
				want := ""
				for i, c := range []storage.Condition{{}, {}, storage.IfAbsent()} {
					if i == 2 {
						if err := change("", storage.Condition{}); err != nil {
							t.Fatal(err)
						}
					}
					want = strconv.Itoa(i)
					if err := change(want, c); err != nil {
						t.Fatalf("fault %d, request %d, change %d: %v", fault, nth, i, err)
					}
				}
				info, err := p.Stat(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				want = "by version"
				if err := change(want, storage.IfVersion(info.Version)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(o.MaxLate)
				if got, _, err := storage.Read(t.Context(), p, key, 100); err != nil || string(got) != want {
					t.Errorf("fault %d of request %d: read %q, %v; want %q", fault, nth, got, err, want)
				}
			}
			p.Close()
		}
	}
}

// untilThen is a section that does not outlast its requests, as a collector's.
type untilThen struct{ storage.Section }

func (untilThen) Deadline() time.Time { return time.Now().Add(time.Minute) }

// What a collector deletes is not deleted once more after that, also if nothing else may ever
// lie there and it is the only deletion: somebody may have put it again.
func TestNoDeletionOfACollectorComesLate(t *testing.T) {
	for _, keys := range [][]string{{"/blobs/a"}, {"/blobs/a", "/blobs/b"}} {
		b := New(Options{MaxLate: 10 * time.Millisecond})
		r := &requests{b: b}
		client := store.NewClient(r, "root", r.Limits(), store.Timing{Pause: time.Millisecond})
		s := store.New(client, store.Options{Shared: true, Spool: t.TempDir(), Mutable: func(string) bool { return false }})
		for range 20 {
			var puts, deletes storage.Stage
			for _, key := range keys {
				puts = append(puts, storage.Change{Key: key, Content: []byte("x")})
				deletes = append(deletes, storage.Change{Key: key, Delete: true, Ephemeral: true})
			}
			apply := func(section storage.Section, stage storage.Stage) {
				t.Helper()
				if err := s.Apply(t.Context(), section, stage); err != nil {
					t.Fatal(err)
				}
			}
			apply(nil, puts)
			var n atomic.Int64
			b.SetFault(func(r Request) Fault {
				if r.Op == "DELETE" && n.Add(1) == 1 {
					return Late
				}
				return None
			})
			apply(untilThen{}, deletes)
			b.SetFault(nil)
			apply(nil, puts)
			b.awaitLate()
			for _, key := range keys {
				if _, err := s.Stat(t.Context(), key); err != nil {
					t.Fatalf("%d deletions: %v", len(keys), err)
				}
			}
		}
	}
}

// Who held the collector's lock and was stopped does not replace the list of who has it now.
func TestStoppedCollectorPublishesNothing(t *testing.T) {
	t.Parallel()
	b := New(Options{Lease: 2 * time.Second})
	p, q := b.Process(), b.Process()
	t.Cleanup(func() { p.Close(); q.Close() })
	old, err := p.Lock(t.Context(), storage.CollectorLock)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Release()
	if err := p.Publish(t.Context(), storage.Pending{Run: "old", Keys: []string{"/old"}}); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	var lock storage.Lease
	for begun := time.Now(); lock == nil; time.Sleep(5 * time.Millisecond) {
		lock, err = q.Lock(t.Context(), storage.CollectorLock)
		if err != nil && (!errors.Is(err, storage.ErrBusy) || time.Since(begun) > 20*time.Second) {
			p.Thaw()
			t.Fatal(err)
		}
	}
	defer lock.Release()
	if err := q.Publish(t.Context(), storage.Pending{Run: "new", Keys: []string{"/new"}}); err != nil {
		t.Fatal(err)
	}
	p.Thaw()
	if err := p.Publish(t.Context(), storage.Pending{Run: "old", Keys: []string{"/other"}}); !errors.Is(err, storage.ErrExpired) {
		t.Errorf("Publish without the lock: %v", err)
	}
	s := begin(t, q)
	defer s.End()
	if s.Run() != "new" || !s.Listed("/new") || s.Listed("/other") {
		t.Errorf("the list is not that of %q", "new")
	}
}

// Where conditions are ignored, nobody joins while a collection without a server is under way,
// nor collects beside a server of another process.
func TestAloneKeepsOthersOut(t *testing.T) {
	b := New(Options{NoConditions: true})
	collector, server := b.Alone(), b.Alone()
	defer collector.Close()
	defer server.Close()
	lock, err := collector.Lock(t.Context(), storage.CollectorLock)
	if err != nil {
		t.Fatal(err)
	}
	exclusive, err := collector.Exclusive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := server.Join(t.Context()); !errors.Is(err, storage.ErrBusy) {
			t.Fatalf("a server beside a collection without servers: %v", err)
		}
		exclusive.Release()
	}
	lock.Release()
	member, err := server.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collector.Lock(t.Context(), storage.CollectorLock); !errors.Is(err, storage.ErrBusy) {
		t.Errorf("a collection beside the server of another process: %v", err)
	}
	own, err := server.Lock(t.Context(), storage.CollectorLock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Exclusive(t.Context()); !errors.Is(err, storage.ErrBusy) {
		t.Errorf("a server is alone beside itself: %v", err)
	}
	own.Release()
	member.Release()
	if lock, err = collector.Lock(t.Context(), storage.CollectorLock); err != nil {
		t.Fatalf("after all have left: %v", err)
	}
	lock.Release()
}

// The bytes are in place when what is left of their upload cannot be deleted.
func TestUploadWhoseLeftoversStay(t *testing.T) {
	b, p, _ := crash(t)
	u, err := p.CreateUpload(t.Context(), "/up/data", storage.UploadHint{})
	if err == nil {
		_, err = u.Write([]byte("bytes"))
	}
	if err == nil {
		err = u.Suspend(t.Context(), nil)
	}
	if err == nil {
		u, err = p.ResumeUpload(t.Context(), "/up/data")
	}
	if err != nil {
		t.Fatal(err)
	}
	b.SetFault(func(r Request) Fault {
		if r.Op == "DELETE" {
			return Denied
		}
		return None
	})
	defer b.SetFault(nil)
	if err := p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); err != nil {
		t.Errorf("Apply: %v", err)
	}
	if got, _, err := storage.Read(t.Context(), p, "/blob", 100); err != nil || string(got) != "bytes" {
		t.Errorf("read %q, %v", got, err)
	}
}

// Where the state cannot be written, who needs that is told so, though nothing ends his context.
func TestGuardGivesUp(t *testing.T) {
	b := New(Options{Fault: func(r Request) Fault {
		if r.Op == "PUT" {
			return FailBefore
		}
		return None
	}})
	r := &requests{b: b}
	l := lease.New(store.NewClient(r, "root", r.Limits(), store.Timing{Pause: time.Millisecond, Patience: 20 * time.Millisecond}), lease.Options{Poll: time.Millisecond})
	defer l.Close()
	if _, _, err := l.Guard(t.Context(), []string{"/tag"}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Guard: %v", err)
	}
}

// An upload in chunks that each are just enough for a part has fewer parts than chunks.
func TestUpload_ManySmallChunks_StaysBelowTheBoundOnParts(t *testing.T) {
	p := New(Options{}).Process()
	defer p.Close()
	chunk := bytes.Repeat([]byte("x"), minPart)
	u, err := p.CreateUpload(t.Context(), "/up/data", storage.UploadHint{})
	const chunks = 250
	for i := range chunks {
		if err == nil {
			_, err = u.Write(chunk)
		}
		if err == nil {
			err = u.Suspend(t.Context(), nil)
		}
		if err == nil {
			u, err = p.ContinueUpload(t.Context(), "/up/data", int64(i+1)*minPart)
		}
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	if err := p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	if info, err := p.Stat(t.Context(), "/blob"); err != nil || info.Size != chunks*minPart {
		t.Errorf("it has %d bytes, %v; want %d", info.Size, err, chunks*minPart)
	}
}
