package hostiletest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
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
		"changes without condition fail": {Fault: func() func(Request) Fault {
			random := Random(2, 0.1)
			return func(r Request) Fault {
				if r.Conditional {
					return None // of several writers, one could learn that the outcome is unknown
				}
				return random(r)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunBubbled(t, func(t *testing.T) (a, b storage.Store) {
				bucket := New(o)
				p := bucket.Process()
				if o.NoConditions || o.DeleteIgnoresConditions && strings.HasSuffix(t.Name(), "/DeleteIfVersionLosesNoChange") {
					return p, p // its own locks stand for the conditions
				}
				return p, bucket.Process()
			})
		})
	}
}

// two returns a bucket and two processes that use it.
func two(t *testing.T) (b *Bucket, p, q *Process) {
	b = New(Options{})
	p, q = b.Process(), b.Process()
	t.Cleanup(func() { p.Close(); q.Close() })
	return b, p, q
}

func create(t *testing.T, p *Process) storage.Upload {
	t.Helper()
	u, err := p.OpenUpload(t.Context(), "/up/data", storage.UploadOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func read(t *testing.T, p *Process, key string) string {
	t.Helper()
	got, _, err := storage.Read(t.Context(), p, key, 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// A change is made once, whichever of its requests fails before or after it took effect.
func TestFailedRequests(t *testing.T) {
	for _, fault := range []Fault{FailBefore, FailAfter} {
		for _, o := range []Options{{}, {ContentVersions: true}, {DeleteIgnoresConditions: true}} {
			b := New(o)
			p := b.Process()
			for nth := range 6 {
				key := fmt.Sprintf("/tags/%d", nth)
				change := func(content string, c storage.Condition) {
					t.Helper()
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
					put := storage.Change{Key: key, Content: []byte(content), If: c}
					if content == "" {
						put = storage.Change{Key: key, Delete: true, If: c}
					}
					err := p.Apply(t.Context(), nil, storage.Stage{put})
					if err != nil {
						t.Fatalf("fault %d of request %d, %q: %v", fault, nth, content, err)
					}
				}
				for i, c := range []storage.Condition{{}, {}, storage.IfAbsent()} {
					if i == 2 {
						change("", storage.Condition{})
					}
					change(strconv.Itoa(i), c)
				}
				info, err := p.Stat(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				change("by version", storage.IfVersion(info.Version))
				if got := read(t, p, key); got != "by version" {
					t.Errorf("fault %d of request %d: read %q", fault, nth, got)
				}
			}
			p.Close()
		}
	}
}

// A collection waits for its deletions that got no answer: somebody may put the object again.
func TestNoDeletionOfACollectionComesLate(t *testing.T) {
	for name, o := range map[string]Options{"versions": {}, "lists": {ContentVersions: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(o)
				p := b.Process()
				defer p.Close()
				put := func(key string) {
					t.Helper()
					if err := p.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte("x")}}); err != nil {
						t.Fatal(err)
					}
				}
				put("/blobs/a")
				put("/blobs/b")
				time.Sleep(time.Minute)
				c, err := p.Collect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				var infos []storage.Info
				for info, err := range p.List(t.Context(), "/blobs", storage.ListOptions{Flat: true}) {
					if err != nil {
						t.Fatal(err)
					}
					infos = append(infos, info)
				}
				late := 0
				b.SetFault(func(r Request) Fault {
					if r.Op != "DELETE" || late == 2 {
						return None
					}
					late++
					return Late
				})
				if kept, err := c.Delete(t.Context(), infos); err != nil || len(kept) > 0 {
					t.Fatalf("kept %v, %v", kept, err)
				}
				b.SetFault(nil)
				if late == 0 {
					t.Fatal("nothing was late")
				}
				time.Sleep(10 * time.Minute) // the list is over
				put("/blobs/a")
				put("/blobs/b")
				b.awaitLate()
				for _, key := range []string{"/blobs/a", "/blobs/b"} {
					if got := read(t, p, key); got != "x" {
						t.Errorf("%s has %q", key, got)
					}
				}
			})
		})
	}
}

// An attempt whose requests are late has renewed its object, or fails: no collection deletes
// what a finished attempt relies on.
func TestAttemptBesideACollection(t *testing.T) {
	for name, o := range map[string]Options{
		"versions": {}, "lists": {ContentVersions: true}, "lists, deletes have no condition": {DeleteIgnoresConditions: true},
	} {
		for delay := range 16 {
			leased := delay%2 == 1
			t.Run(fmt.Sprintf("%s, after %d, leased before %v", name, delay/2, leased), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := New(o)
					p, q := b.Process(), b.Process()
					defer p.Close()
					defer q.Close()
					if err := p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Content: []byte("x")}}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
					pause := time.Duration(delay/2) * 2 * time.Second
					if leased {
						pause *= 10 // a collection waits for q
						if err := q.Apply(t.Context(), nil, storage.Stage{{Key: "/other", Content: []byte("x")}}); err != nil {
							t.Fatal(err)
						}
					}
					linked := make(chan bool)
					go func() {
						time.Sleep(pause)
						a := q.Begin()
						_, err := storage.Rely(t.Context(), q, a, "/blob")
						if err == nil {
							time.Sleep(10 * time.Second) // less than an attempt may last
							err = q.Apply(t.Context(), a, storage.Stage{{Key: "/link", Content: []byte("x")}})
						}
						if err != nil && !errors.Is(err, storage.ErrExpired) && !errors.Is(err, storage.ErrTemporary) && !errors.Is(err, storage.ErrNotExist) {
							t.Errorf("the attempt: %v", err)
						}
						linked <- err == nil
					}()
					c, err := p.Collect(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					info, err := p.Stat(t.Context(), "/blob")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := p.Stat(t.Context(), "/link"); err != nil && info.Modified.Before(c.Start()) {
						if _, err := c.Delete(t.Context(), []storage.Info{info}); err != nil {
							t.Fatal(err)
						}
					}
					if <-linked {
						read(t, p, "/blob")
					}
				})
			})
		}
	}
}

// Bytes are in place even if what is left of their upload can't be deleted.
func TestUploadWhoseLeftoversStay(t *testing.T) {
	b, p, _ := two(t)
	u := create(t, p)
	_, err := u.Write([]byte("bytes"))
	if err == nil {
		err = u.Suspend(t.Context(), 5, nil)
	}
	if err == nil {
		u, err = p.OpenUpload(t.Context(), "/up/data", storage.UploadOptions{})
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
	if got := read(t, p, "/blob"); got != "bytes" {
		t.Errorf("read %q", got)
	}
}
