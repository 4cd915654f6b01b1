package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostiletest"
)

var errDead = errors.New("the process is dead")

// dying is a store whose collection dies after a number of deletions.
type dying struct {
	storage.Store
	deletions int
}

func (s *dying) Collect(ctx context.Context) (storage.Collection, error) {
	c, err := s.Store.Collect(ctx)
	return &dyingCollection{c, s}, err
}

type dyingCollection struct {
	storage.Collection
	s *dying
}

func (c *dyingCollection) Delete(ctx context.Context, infos []storage.Info) (kept []storage.Info, err error) {
	some := infos[:min(len(infos), c.s.deletions)]
	c.s.deletions -= len(some)
	kept, err = c.Collection.Delete(ctx, some)
	if err == nil && len(some) < len(infos) {
		err = errDead
	}
	return kept, err
}

// consistent checks promise 1: each manifest in place has everything it needs.
func (x volume) consistent(repo oci.Name) {
	x.t.Helper()
	ctx := x.t.Context()
	for info, err := range x.s.List(ctx, layout.Revisions(repo, oci.SHA256), storage.ListOptions{Flat: true}) {
		if err != nil {
			x.t.Fatal(err)
		}
		link, there := tree.ReadLink(ctx, x.s, info.Key, "")
		if !there {
			continue
		}
		body, _, err := storage.Read(ctx, x.s, layout.BlobData(link.Target), tree.MaxManifest)
		if err != nil {
			x.t.Errorf("%s without its bytes: %v", info.Key, err)
			continue
		}
		refs, err := oci.ReadReferences(body)
		if err != nil {
			x.t.Fatal(err)
		}
		for _, d := range refs.Needed {
			isBlob, isManifest := x.has(layout.LayerLink(repo, d)), x.has(layout.RevisionLink(repo, d))
			if !isBlob && !isManifest || !x.has(layout.BlobData(d)) {
				x.t.Errorf("%s without %s", info.Key, d)
			}
		}
	}
}

// garbage fills a repository with an image that stays, what was just confirmed to a client, and
// garbage in which manifests need each other.
func (x volume) garbage() (check func(x volume, freed bool)) {
	kept, keptBlobs := x.image("a", "v1", "kept")
	told := oci.SHA256.FromBytes([]byte("told"))
	x.put(layout.BlobData(told), []byte("told"), day)
	x.put(layout.LayerLink("a", told), layout.Link(told), time.Second)
	child, blobs := x.image("a", "", "child")
	index := x.manifest("a", "", document{Manifests: []descriptor{{Digest: child}}})
	referrer := x.manifest("a", "", document{Subject: &descriptor{Digest: index}, Layers: []descriptor{{Digest: keptBlobs[1]}}})
	x.blob("b", "garbage of its own")
	return func(x volume, freed bool) {
		x.t.Helper()
		x.whole("kept", "a", kept, keptBlobs)
		x.want("link that was confirmed to a client", layout.LayerLink("a", told), true)
		x.want("bytes that were confirmed to a client", layout.BlobData(told), true)
		x.consistent("a")
		if freed {
			x.gone("index", "a", index, nil)
			x.gone("child", "a", child, blobs)
			x.gone("referrer", "a", referrer, nil)
			x.want("blob of b", layout.BlobData(oci.SHA256.FromBytes([]byte("garbage of its own"))), false)
		}
	}
}

var deathOptions = Options{Age: time.Hour, KeepAge: true, DeleteUntagged: true}

// A collection that dies between any two deletions breaks no promise, and the next one frees
// what it has left.
func TestDeathAfterEachDeletion(t *testing.T) {
	for name, open := range map[string]func(*testing.T) volume{"files": onDisk, "memory": onMemory} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				x := open(t)
				check := x.garbage()
				o := deathOptions
				o.Store = &dying{x.s, n}
				_, err := Run(t.Context(), o)
				if err == nil {
					if n < 8 {
						t.Errorf("a run makes %d deletions only", n)
					}
					check(x, true)
					return
				}
				if !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				check(x, false)
				x.run(deathOptions)
				check(x, true)
				if t.Failed() {
					t.Fatalf("dead after %d deletions", n)
				}
			}
		})
	}
}

// On an object store a collection may die at any of its changes, which may take effect or not. Its
// lock and its list stay in the bucket.
func TestDeathAtEachRequest(t *testing.T) {
	for name, o := range map[string]hostiletest.Options{"versions": {}, "lists": {ContentVersions: true, DeleteIgnoresConditions: true}} {
		for _, effect := range []hostiletest.Fault{hostiletest.FailBefore, hostiletest.FailAfter} {
			t.Run(fmt.Sprintf("%s, effect %v", name, effect == hostiletest.FailAfter), func(t *testing.T) {
				n := 1
				for dieAt(t, o, effect, n) && !t.Failed() {
					n++
				}
				if t.Failed() {
					t.Errorf("dead at change %d", n)
				} else if n < 10 {
					t.Errorf("a run makes %d changes only", n)
				}
			})
		}
	}
}

// dieAt reports whether a run makes n changes. At the nth it dies.
func dieAt(t *testing.T, o hostiletest.Options, effect hostiletest.Fault, n int) (died bool) {
	synctest.Test(t, func(t *testing.T) {
		b := hostiletest.New(o)
		p, next := b.Process(), b.Process()
		defer p.Close()
		defer next.Close()
		x := volume{t: t, s: p, put: putter(t, p, b.SetClock), remote: true}
		check := x.garbage()
		var changes atomic.Int32
		b.SetFault(func(r hostiletest.Request) hostiletest.Fault {
			if !r.Write || changes.Add(1) != int32(n) {
				return hostiletest.None
			}
			p.Kill()
			return effect
		})
		_, err := x.tryRun(deathOptions)
		b.SetFault(nil)
		died = int(changes.Load()) >= n
		if !died && err != nil {
			t.Fatal(err)
		}
		x.s = next
		check(x, err == nil)
		time.Sleep(2 * time.Minute) // its lock ends
		x.run(deathOptions)
		check(x, true)
		time.Sleep(30 * time.Minute) // its list ends
		x.run(deathOptions)
		for _, key := range b.Keys() {
			if strings.Contains(key, "/.slipway/") {
				t.Errorf("left: %s", key)
			}
		}
	})
	return died
}
