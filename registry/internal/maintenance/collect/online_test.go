package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

// beside runs beside a server and calls f once, after a repository was read, which has a
// manifest that stays, and before its garbage is deleted.
func beside(t *testing.T, o Options, f func(x volume, kept oci.Digest, garbage oci.Digest)) (volume, Report) {
	t.Helper()
	x := onMemory(t)
	x.serve()
	kept, _ := x.image("b", "v1", "kept")
	garbage := x.blob("b", "garbage")
	called := false
	o.Tell = func(e Event) {
		if e.Kind == Manifest && !called {
			called = true
			f(x, kept, garbage)
		}
	}
	report := x.run(o)
	if !called {
		t.Fatal("the hook was not called")
	}
	return x, report
}

// renew renews a link as a writer does that is going to rely on it.
func (x volume) renew(key string) {
	x.t.Helper()
	if _, err := storage.Rely(x.t.Context(), x.s, x.s.Begin(), key); err != nil {
		x.t.Fatal(err)
	}
}

func TestRenewedMeanwhileStays(t *testing.T) {
	x, report := beside(t, Options{}, func(x volume, _, garbage oci.Digest) {
		x.renew(layout.LayerLink("b", garbage))
	})
	d := oci.SHA256.FromBytes([]byte("garbage"))
	if report.Kept.Recent.Blobs != 1 {
		t.Errorf("%+v", report)
	}
	x.want("link", layout.LayerLink("b", d), true)
	x.want("bytes", layout.BlobData(d), true)
}

func TestManifestPushedMeanwhileKeepsItsBlobs(t *testing.T) {
	for _, tag := range []oci.Tag{"v2", ""} { // without a tag: an index that lists it may follow
		t.Run("tag "+string(tag), func(t *testing.T) {
			var pushed oci.Digest
			x, _ := beside(t, Options{DeleteUntagged: true}, func(x volume, _, garbage oci.Digest) {
				x.renew(layout.LayerLink("b", garbage))
				pushed = x.manifest("b", tag, document{Layers: []descriptor{{Digest: garbage}}})
				x.put(layout.BlobData(pushed), x.read(layout.BlobData(pushed)), 0)
				x.put(layout.RevisionLink("b", pushed), layout.Link(pushed), 0)
			})
			x.whole("what was pushed", "b", pushed, []oci.Digest{oci.SHA256.FromBytes([]byte("garbage"))})
		})
	}
}

// A manifest that was garbage and that somebody has renewed keeps what it needs: manifests
// and blobs.
func TestRenewedManifestKeepsWhatItNeeds(t *testing.T) {
	var child, index oci.Digest
	var blobs []oci.Digest
	x := onMemory(t)
	x.serve()
	x.image("b", "v1", "kept")
	child, blobs = x.image("b", "", "child")
	index = x.manifest("b", "", document{Manifests: []descriptor{{Digest: child}}})
	called := false
	x.run(Options{DeleteUntagged: true, Tell: func(e Event) {
		if e.Kind == Manifest && !called {
			called = true
			x.renew(layout.RevisionLink("b", index))
		}
	}})
	x.whole("index", "b", index, nil)
	x.whole("child", "b", child, blobs)
	x.run(Options{DeleteUntagged: true})
	x.gone("child", "b", child, blobs)
}

// So does one whose layer is linked by another algorithm's digest, as distribution does.
func TestRenewedManifestKeepsAliasedBytes(t *testing.T) {
	x := onMemory(t)
	x.serve()
	x.image("b", "v1", "kept")
	target, alias := x.blob("b", "aliased"), oci.SHA512.FromBytes([]byte("aliased"))
	x.put(layout.LayerLink("b", alias), layout.Link(target), day)
	m := x.manifest("b", "", document{Layers: []descriptor{{Digest: alias}}})
	called := false
	x.run(Options{DeleteUntagged: true, Tell: func(e Event) {
		if e.Kind == Manifest && !called {
			called = true
			x.renew(layout.RevisionLink("b", m))
		}
	}})
	x.want("manifest", layout.RevisionLink("b", m), true)
	x.want("alias", layout.LayerLink("b", alias), true)
	x.want("bytes", layout.BlobData(target), true)
}

func TestBytesMountedMeanwhileStay(t *testing.T) {
	d := oci.SHA256.FromBytes([]byte("garbage"))
	x, report := beside(t, Options{}, func(x volume, _, garbage oci.Digest) {
		x.renew(layout.BlobData(garbage))
		x.put(layout.LayerLink("a", garbage), layout.Link(garbage), 0) // a was read before
	})
	if report.Kept.Recent.Blobs != 1 {
		t.Errorf("%+v", report)
	}
	x.want("the other link", layout.LayerLink("b", d), false)
	x.want("link", layout.LayerLink("a", d), true)
	x.want("bytes", layout.BlobData(d), true)
}

// Where no upload is under way, or only an abandoned one, the shorter grace period counts.
func TestIdleAge(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		idle, busy, abandoned := x.blob("idle", "idle"), x.blob("busy", "busy"), x.blob("abandoned", "abandoned")
		x.put(layout.LayerLink("idle", idle), layout.Link(idle), 10*time.Minute)
		x.put(layout.LayerLink("busy", busy), layout.Link(busy), 10*time.Minute)
		x.put(layout.LayerLink("abandoned", abandoned), layout.Link(abandoned), 10*time.Minute)
		x.put(layout.UploadStartedAt("busy", "id"), layout.StartedAt(time.Now()), time.Minute)
		x.put(layout.UploadStartedAt("abandoned", "id"), layout.StartedAt(time.Now()), 2*time.Hour)
		x.run(Options{Age: time.Hour, IdleAge: 2 * time.Minute, KeepAge: true})
		x.want("blob of an idle repository", layout.BlobData(idle), false)
		x.want("blob of one with an upload", layout.BlobData(busy), true)
		x.want("blob of one with an abandoned upload", layout.BlobData(abandoned), false)
	})
}

func (x volume) read(key string) []byte {
	x.t.Helper()
	content, _, err := storage.Read(x.t.Context(), x.s, key, 1<<20)
	if err != nil {
		x.t.Fatal(err)
	}
	return content
}

// A store behind a network is read by several workers, also beside a server.
func TestRemoteStoreIsReadBySeveral(t *testing.T) {
	x := onMemory(t)
	x.remote = true
	x.serve()
	x.image("a", "v1", "one")
	x.image("a", "v2", "two")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	arrived := make(chan struct{})
	meeting := &hookedtest.Store{Store: x.s, OnRead: func(ctx context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Open && strings.HasPrefix(key, layout.Blobs) { // no one reads a blob alone
			select {
			case arrived <- struct{}{}: // the second has come
			case <-arrived:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}}
	o := Options{Store: meeting, Remote: true}
	if report, err := Run(ctx, o); err != nil || report.Blobs.Kept != 6 {
		t.Errorf("%v, %+v", err, report)
	}
}

// Somebody who watches a run on a bucket that a process uses is told first that it waits. Otherwise it starts at once.
func TestWaiting(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := hostiletest.New(hostiletest.Options{})
			p, q := b.Process(), b.Process()
			defer p.Close()
			defer q.Close()
			x := volume{t: t, s: p, put: putter(t, p, b.SetClock), remote: true} // its lease is as old as what it puts
			x.image("a", "v1", "one")
			if err := q.Apply(t.Context(), nil, storage.Stage{{Key: "/r/new", Content: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(idle)
			begun, told := time.Now(), []Kind{}
			x.run(Options{Tell: func(e Event) { told = append(told, e.Kind) }})
			if waits, took := told[0] == Waiting, time.Since(begun); waits != (idle == 0) || waits != (took > time.Minute) || !waits && took > 10*time.Second {
				t.Errorf("idle for %v: told %v, it takes %v", idle, told, took)
			}
		})
	}
}

// Beside a server a dry run describes what the run then does.
func TestDryRunSaysWhatTheRunDoes(t *testing.T) {
	for _, o := range []Options{{Age: time.Hour}, {Age: time.Hour, DeleteUntagged: true}, {DeleteUntagged: true}} {
		t.Run(fmt.Sprintf("age %v, untagged %v", o.Age, o.DeleteUntagged), func(t *testing.T) {
			x := onMemory(t)
			x.serve()
			x.image("a", "v1", "first")
			x.image("a", "v1", "second") // the first is untagged and in the history
			x.image("a", "", "by digest")
			deleted, _ := x.image("b/c", "v1", "deleted")
			x.remove(layout.RevisionLink("b/c", deleted))
			x.remove(layout.TagCurrent("b/c", "v1"))
			x.blob("d", "garbage")
			events := func(dry bool) (report Report, all []Event) {
				o := o
				o.DryRun, o.Tell = dry, func(e Event) {
					if e.Kind != Marked {
						all = append(all, e)
					}
				}
				report = x.run(o)
				report.Duration, report.DryRun = 0, false
				return report, all
			}
			would, saying := events(true)
			did, doing := events(false)
			if !reflect.DeepEqual(would, did) {
				t.Errorf("it would %+v, and did %+v", would, did)
			}
			byText := func(a, b Event) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
			slices.SortFunc(saying, byText)
			slices.SortFunc(doing, byText)
			if !reflect.DeepEqual(saying, doing) {
				t.Errorf("it would %v, and did %v", saying, doing)
			}
		})
	}
}

func TestDryRunCreatesNoFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	s, err := filesystem.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, dry := range []bool{true, false} {
		report, err := Run(t.Context(), Options{Store: s, DryRun: dry})
		if err != nil || report.Blobs.Found != 0 {
			t.Errorf("a storage that does not exist yet: %v, %+v", err, report)
		}
		if _, err := os.Stat(root); !os.IsNotExist(err) {
			t.Errorf("dry = %v: the root was made: %v", dry, err)
		}
	}
	d := oci.SHA256.FromBytes([]byte("x"))
	if err := os.MkdirAll(root+layout.BlobDir(d), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+layout.BlobData(d), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := Run(t.Context(), Options{Store: s, DryRun: true}); err != nil || report.Blobs.Freed != 1 {
		t.Errorf("%v, %+v", err, report)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Distribution deletes the link of a manifest and leaves its directory: that needs nothing.
func TestRevisionWithoutLink(t *testing.T) {
	x := onDisk(t)
	x.image("a", "v1", "kept")
	gone, blobs := x.image("a", "", "gone")
	if err := os.Remove(x.root + layout.RevisionLink("a", gone)); err != nil {
		t.Fatal(err)
	}
	x.run(Options{})
	x.gone("deleted by distribution", "a", gone, blobs)
}

// Where no registry serves, a dry run reports recent blobs as the run does: as garbage, unless an
// age is set. Nobody can know who serves a bucket.
func TestDryRunWithoutAServerReportsRecentBlobs(t *testing.T) {
	check := func(t *testing.T, x volume) {
		d := oci.SHA256.FromBytes([]byte("recent"))
		for _, o := range []Options{{Age: time.Hour}, {Age: time.Hour, KeepAge: true}} {
			x.put(layout.BlobData(d), []byte("recent"), 0)
			x.put(layout.LayerLink("a", d), layout.Link(d), 0)
			dry := o
			dry.DryRun = true
			would, did := x.run(dry), x.run(o)
			if would.Blobs != did.Blobs || would.Kept != did.Kept {
				t.Errorf("%+v: it would %+v, and did %+v", o, would, did)
			}
		}
	}
	onStores(t, check)
	t.Run("bucket without conditions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := hostiletest.New(hostiletest.Options{NoConditions: true})
			p := b.Process()
			defer p.Close()
			check(t, volume{t: t, s: p, put: putter(t, p, b.SetClock), remote: true})
		})
	})
}

// An interrupted deletion of a tag leaves its history and push record. A collection removes them, and
// never those of a tag that is being pushed.
func TestHistoryOfATagWithoutALink(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		d, _ := x.image("a", "v1", "kept")
		record := layout.Pushed([]layout.Push{{Digest: d, At: time.Now()}})
		keys := func(tag oci.Tag) []string { return []string{layout.TagIndex("a", tag, d), layout.TagPushed("a", tag)} }
		for tag, age := range map[oci.Tag]time.Duration{"v1": day, "gone": day, "new": 0} {
			x.put(layout.TagIndex("a", tag, d), layout.Link(d), age)
			x.put(layout.TagPushed("a", tag), record, age)
		}
		x.run(Options{Age: time.Hour, DryRun: true})
		x.want("after a dry run", layout.TagPushed("a", "gone"), true)
		x.run(Options{Age: time.Hour, KeepAge: true})
		for i := range 2 {
			x.want("of a tag", keys("v1")[i], true)
			x.want("of a deleted tag", keys("gone")[i], false)
			x.want("of a new tag", keys("new")[i], true)
		}
	})
}

// When the clock of the storage is set back, what is pushed afterwards seems older than the collection, which ends before it
// deletes anything.
func TestClockSetBack(t *testing.T) {
	check := func(t *testing.T, x volume, set func(func() time.Time)) {
		t.Helper()
		x.serve()
		x.image("a", "v1", "kept")
		garbage := x.blob("a", "garbage")
		var pushed oci.Digest
		var blobs []oci.Digest
		report, err := x.tryRun(Options{Tell: func(e Event) {
			if e.Kind == Manifest && pushed == "" { // a was read
				set(func() time.Time { return time.Now().Add(-2 * time.Hour) })
				x.put = func(key string, content []byte, _ time.Duration) {
					if err := x.s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: content}}); err != nil {
						t.Fatal(err)
					}
				}
				pushed, blobs = x.image("a", "v2", "new")
			}
		}})
		if !errors.Is(err, storage.ErrClock) || report.Blobs.Freed > 0 {
			t.Errorf("%v, %+v", err, report)
		}
		x.whole("pushed", "a", pushed, blobs)
		x.want("garbage", layout.BlobData(garbage), true)
	}
	t.Run("memory", func(t *testing.T) {
		m := memory.New()
		check(t, volume{t: t, s: m, put: putter(t, m, m.SetClock)}, m.SetClock)
	})
	for _, o := range []hostiletest.Options{{}, {NoConditions: true}} {
		t.Run(fmt.Sprintf("bucket %+v", o), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := hostiletest.New(o)
				p := b.Process()
				defer p.Close()
				check(t, volume{t: t, s: p, put: putter(t, p, b.SetClock), remote: true}, b.SetClock)
			})
		})
	}
}

// A signed image that lost its tag, and gets one again while a collection deletes untagged manifests, keeps its signature, whichever
// of the two would be deleted first.
func TestRenewedManifestKeepsItsReferrers(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		if !x.serving {
			return
		}
		type signed struct {
			image, signature, index oci.Digest
			blobs, of               []oci.Digest
		}
		var all []signed
		for i := range 8 { // of random digests
			var s signed
			name := fmt.Sprint("image ", i)
			s.image, s.blobs = x.image("b", "", name)
			s.of = []oci.Digest{x.blob("b", "signature of "+name)}
			s.signature = x.manifest("b", "", document{Layers: []descriptor{{Digest: s.of[0]}}, Subject: &descriptor{Digest: s.image}})
			s.index = x.manifest("b", "", document{Manifests: []descriptor{{Digest: s.image}, {Digest: s.signature}}})
			all = append(all, s)
		}
		x.image("b", "v1", "kept")
		called := false
		x.run(Options{DeleteUntagged: true, Tell: func(e Event) {
			if e.Kind == Manifest && !called {
				called = true
				for _, s := range all {
					x.renew(layout.RevisionLink("b", s.image))
				}
			}
		}})
		for _, s := range all {
			x.whole("image", "b", s.image, s.blobs)
			x.whole("signature", "b", s.signature, s.of)
			x.gone("index", "b", s.index, nil)
		}
	})
}

// An index whose subject is what it lists is garbage like any other.
func TestIndexOfItsOwnSubjectIsFreed(t *testing.T) {
	x := onMemory(t)
	x.serve()
	x.image("b", "v1", "kept")
	child, blobs := x.image("b", "", "child")
	index := x.manifest("b", "", document{Manifests: []descriptor{{Digest: child}}, Subject: &descriptor{Digest: child}})
	x.run(Options{DeleteUntagged: true})
	x.gone("index", "b", index, nil)
	x.gone("child", "b", child, blobs)
}

// A manifest that is garbage, and that a client deletes before the collection does, can be restored: what it needs stays.
func TestDeletedMeanwhileCanBeRestored(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		if !x.serving {
			return
		}
		x.image("b", "v1", "kept")
		child, blobs := x.image("b", "", "child")
		index := x.manifest("b", "", document{Manifests: []descriptor{{Digest: child}}})
		other, others := x.image("b", "", "other")
		called := false
		x.run(Options{DeleteUntagged: true, Tell: func(e Event) {
			if e.Kind == Manifest && !called {
				called = true
				now := time.Now()
				d := layout.Deletion{ID: layout.DeletionID(now, now.Add(day)), At: now, Until: now.Add(day), Manifests: []oci.Digest{index}}
				x.put(d.Key("b"), d.Encode(), 0)
				x.remove(layout.RevisionLink("b", index))
			}
		}})
		x.want("bytes of what was deleted", layout.BlobData(index), true)
		x.whole("its child", "b", child, blobs)
		x.gone("other garbage", "b", other, others)
	})
}
