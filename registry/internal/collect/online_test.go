package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostile"
)

// beside runs beside a server and calls f once, between the first look at a
// repository, which has a manifest that stays, and the deletion of its garbage.
func beside(t *testing.T, o Options, f func(x volume, kept oci.Digest, garbage oci.Digest)) (volume, Report, error) {
	t.Helper()
	x := onMemory(t)
	lease, err := x.c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lease.Release)
	kept, _ := x.image("b", "v1", "kept")
	garbage := x.blob("b", "garbage")
	called := false
	o.Tell = func(e Event) {
		if e.Kind == Manifest && !called {
			called = true
			f(x, kept, garbage)
		}
	}
	report, err := x.tryRun(o)
	if !called {
		t.Fatal("the hook was not called")
	}
	return x, report, err
}

func TestRenewedBetweenTheLooksStays(t *testing.T) {
	x, report, err := beside(t, Options{Age: time.Hour}, func(x volume, _, garbage oci.Digest) {
		x.put(layout.LayerLink("b", garbage), layout.Link(garbage), 0)
	})
	d := oci.SHA256.FromBytes([]byte("garbage"))
	if err != nil || report.Kept.Recent.Blobs != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	x.want("link", layout.LayerLink("b", d), true)
	x.want("bytes", layout.BlobData(d), true)
}

func TestManifestPushedBetweenTheLooksKeepsItsBlobs(t *testing.T) {
	for _, tag := range []oci.Tag{"v2", ""} { // without a tag: an index that lists it may follow
		t.Run("tag "+string(tag), func(t *testing.T) {
			var pushed oci.Digest
			x, _, err := beside(t, Options{Age: 0, DeleteUntagged: true}, func(x volume, _, garbage oci.Digest) {
				pushed = x.manifest("b", tag, document{Layers: []descriptor{{Digest: garbage}}})
			})
			if err != nil {
				t.Fatal(err)
			}
			x.whole("what was pushed", "b", pushed, []oci.Digest{oci.SHA256.FromBytes([]byte("garbage"))})
		})
	}
}

func TestBytesLinkedDuringTheRunStay(t *testing.T) {
	d := oci.SHA256.FromBytes([]byte("garbage"))
	x, report, err := beside(t, Options{Age: 0}, func(x volume, _, garbage oci.Digest) {
		s, err := x.c.Begin(t.Context())
		if err != nil || s.Run() == "" || s.Listed(layout.LayerLink("b", garbage)) {
			t.Errorf("the run is not published, or too much: %v, %q", err, s.Run())
		}
		defer s.End()
		x.put(layout.Linked(s.Run(), garbage), nil, 0)
		x.put(layout.LayerLink("a", garbage), layout.Link(garbage), 0) // a was looked at before
	})
	if err != nil || report.Kept.Recent.Blobs != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	x.want("the other link", layout.LayerLink("b", d), false)
	x.want("link", layout.LayerLink("a", d), true)
	x.want("bytes", layout.BlobData(d), true)
}

// While a writer keeps the run waiting nothing is listed for long, and the run
// goes on when the writer ends.
func TestWriterThatDoesNotEndInTime(t *testing.T) {
	x, report, err := beside(t, Options{Age: 0, Wait: 20 * time.Millisecond}, func(x volume, _, garbage oci.Digest) {
		s, err := x.c.Begin(t.Context())
		if err != nil {
			t.Error(err)
		}
		time.AfterFunc(500*time.Millisecond, func() {
			other, err := x.c.Begin(context.Background())
			if err != nil || other.Listed(layout.LayerLink("b", garbage)) {
				t.Errorf("%v, or it is listed still", err)
			}
			other.End()
			s.End()
		})
	})
	if err != nil || report.Blobs.Freed != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	x.want("garbage", layout.BlobData(oci.SHA256.FromBytes([]byte("garbage"))), false)
}

// A run that is told to end withdraws its list, and the next one finishes.
func TestRunThatIsEndedWithdrawsItsList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := onMemory(t)
	lease, err := x.c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	x.image("b", "v1", "kept")
	garbage := x.blob("b", "garbage")
	held, err := x.c.Begin(t.Context()) // the run waits for it
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err = Run(ctx, Options{Store: x.s, Coordinator: x.c}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	held.End()
	s, err := x.c.Begin(t.Context())
	if err != nil || s.Run() != "" || s.Listed(layout.LayerLink("b", garbage)) {
		t.Errorf("%v; %q is under way", err, s.Run())
	}
	s.End()
	if report := x.run(Options{}); report.Blobs.Freed != 1 {
		t.Errorf("%+v", report)
	}
}

// oneList fails the test if a list replaces another.
type oneList struct {
	storage.Coordinator
	t      *testing.T
	mu     sync.Mutex
	listed bool
	lists  int
}

func (c *oneList) Publish(ctx context.Context, p storage.Pending) error {
	c.mu.Lock()
	if len(p.Keys) > 0 && c.listed {
		c.t.Error("a list replaces another one that was not withdrawn")
	}
	if c.listed = len(p.Keys) > 0; c.listed {
		c.lists++
	}
	c.mu.Unlock()
	return c.Coordinator.Publish(ctx, p)
}

func (c *oneList) published() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

// The workers of a run that was exclusive take turns with their lists once a server
// has come.
func TestOneListAtATime(t *testing.T) {
	x := onFiles(t)
	for i := range 60 {
		x.image(oci.Name(fmt.Sprint("a", i)), "v1", fmt.Sprint("kept ", i))
		x.image(oci.Name(fmt.Sprint("a", i)), "", fmt.Sprint("old ", i))
	}
	c := &oneList{Coordinator: x.c, t: t}
	joined := make(chan error, 1)
	x.c = c
	report := x.run(Options{DeleteUntagged: true, Tell: func() func(Event) {
		var once sync.Once
		return func(Event) {
			once.Do(func() {
				go func() {
					lease, err := c.Join(t.Context())
					if err == nil {
						t.Cleanup(lease.Release)
					}
					joined <- err
				}()
				time.Sleep(50 * time.Millisecond)
			})
		}
	}()})
	if err := <-joined; err != nil || c.lists < 2 || report.Blobs.Freed != 180 || report.Blobs.Kept != 180 {
		t.Errorf("%v, %d lists, %+v", err, c.lists, report)
	}
}

// A list and its barrier may cost seconds on an object store, so small repositories
// share one.
func TestSmallRepositoriesShareAList(t *testing.T) {
	x := onMemory(t)
	c := &oneList{Coordinator: x.c, t: t}
	x.c = c
	lease, err := c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	for i := range 50 {
		x.blob(oci.Name(fmt.Sprint("a", i)), fmt.Sprint("old ", i))
	}
	report := x.run(Options{})
	if c.lists != 2 || report.Blobs.Freed != 50 || report.LayerLinks != 50 {
		t.Errorf("%d lists, want one for the links and one for the bytes; %+v", c.lists, report)
	}
}

// A push that came between the looks keeps where its tag has pointed, also when
// the tag has moved on since.
func TestHistoryOfAPushBetweenTheLooksStays(t *testing.T) {
	var pushed, old oci.Digest
	x, report, err := beside(t, Options{DeleteUntagged: true}, func(x volume, kept, _ oci.Digest) {
		pushed, _ = x.image("b", "v1", "pushed")
		x.put(layout.TagCurrent("b", "v1"), layout.Link(kept), 0)
	})
	if err != nil || report.TagEntries != 0 {
		t.Fatalf("%v, %+v", err, report)
	}
	x.want("history", layout.TagIndex("b", "v1", pushed), true)

	var written bool
	x, _, err = beside(t, Options{DeleteUntagged: true}, func(x volume, _, _ oci.Digest) {
		old = oci.SHA256.FromBytes([]byte("old"))
		x.put(layout.TagIndex("b", "v1", old), layout.Link(old), 0) // of a manifest that is gone
		written = true
	})
	if err != nil || !written {
		t.Fatal(err)
	}
	x.want("history that came after the first look", layout.TagIndex("b", "v1", old), true)
	x.run(Options{DeleteUntagged: true})
	x.want("history of a manifest that is gone", layout.TagIndex("b", "v1", old), false)
}

// A manifest that is gone and pushed again, between the looks and until after the list
// is published, keeps its history.
func TestHistoryOfAPushUnderWayStays(t *testing.T) {
	x := onMemory(t)
	lease, err := x.c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	kept, _ := x.image("b", "v1", "kept")
	d := x.manifest("b", "v1", document{})
	x.put(layout.TagCurrent("b", "v1"), layout.Link(kept), 0)
	x.remove(layout.RevisionLink("b", d))
	c := &oneList{Coordinator: x.c, t: t}
	x.c = c
	pushed := false
	push := func(Event) {
		if pushed {
			return
		}
		pushed = true
		s, err := c.Begin(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer s.End()
			for c.published() == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			x.put(layout.RevisionLink("b", d), layout.Link(d), 0)
			x.put(layout.TagCurrent("b", "v1"), layout.Link(d), 0)
		}()
	}
	x.run(Options{DeleteUntagged: true, Tell: push})
	x.want("history", layout.TagIndex("b", "v1", d), true)
	x.want("manifest", layout.RevisionLink("b", d), true)
}

// meeting is a store in which nobody reads a blob alone.
type meeting struct {
	storage.Store
	arrived chan struct{}
}

func (m *meeting) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if strings.HasPrefix(key, layout.Blobs) {
		select {
		case m.arrived <- struct{}{}: // the second has come
		case <-m.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return m.Store.Open(ctx, key, offset, length)
}

// A store behind a network is read by several workers, also beside a server.
func TestRemoteStoreIsReadBySeveral(t *testing.T) {
	x := onMemory(t)
	x.remote = true
	lease, err := x.c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	x.image("a", "v1", "one")
	x.image("a", "v2", "two")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o := Options{Store: &meeting{Store: x.s, arrived: make(chan struct{})}, Coordinator: x.c, Remote: true}
	if report, err := Run(ctx, o); err != nil || report.Blobs.Kept != 6 {
		t.Errorf("%v, %+v", err, report)
	}
}

// Beside a server a dry run says what the run then does.
func TestDryRunSaysWhatTheRunDoes(t *testing.T) {
	for _, o := range []Options{{Age: time.Hour}, {Age: time.Hour, DeleteUntagged: true}, {DeleteUntagged: true}, {Age: time.Hour, Release: true, DeleteUntagged: true}} {
		t.Run(fmt.Sprintf("age %v, untagged %v, release %v", o.Age, o.DeleteUntagged, o.Release), func(t *testing.T) {
			x := onMemory(t)
			lease, err := x.c.Join(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
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

// A worker that lets a server in after another one has done so withdraws no list.
func TestLetInTwice(t *testing.T) {
	x := onMemory(t)
	r := newRun(Options{Store: x.s, Coordinator: x.c, Log: zap.NewNop()})
	lock, err := x.c.Lock(t.Context(), storage.CollectorLock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := r.begin(t.Context()); err != nil || !r.exclusive.now() {
		t.Fatalf("it is not exclusive: %v", err)
	}
	if err := r.letIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = r.listed(t.Context(), []string{"/a"}, func(ctx context.Context) error {
		late := make(chan error, 1)
		go func() { late <- r.letIn(ctx) }()
		select {
		case err := <-late:
			t.Errorf("it has not waited for the deletion: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		s, err := x.c.Begin(ctx)
		if err != nil {
			return err
		}
		defer s.End()
		if !s.Listed("/a") {
			t.Error("the list was withdrawn while it was deleted")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// full is a coordinator whose storage has no room for the list.
type full struct{ storage.Coordinator }

func (full) Publish(_ context.Context, p storage.Pending) error {
	if p.Run == "" {
		return nil
	}
	return storage.ErrNoSpace
}

func TestFullStorageIsFreedWhileNobodyServes(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		kept, keptBlobs := x.image("a", "v1", "kept")
		old, oldBlobs := x.image("a", "", "old")
		x.c = full{x.c}
		_, err := x.tryRun(Options{DeleteUntagged: true})
		x.whole("kept", "a", kept, keptBlobs)
		if x.serving {
			if !errors.Is(err, ErrNoRoom) {
				t.Errorf("got %v", err)
			}
			x.whole("garbage beside a server", "a", old, oldBlobs)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		x.gone("garbage", "a", old, oldBlobs)
	})
}

// Push, delete, collect: the bytes are free in that run, unless somebody was told of
// them since.
func TestRelease(t *testing.T) {
	const pushed = 10 * time.Minute
	young := func(x volume, tag oci.Tag, seed string) (oci.Digest, []oci.Digest) {
		m, blobs := x.image("a", tag, seed)
		for _, d := range blobs {
			x.put(layout.BlobData(d), []byte(map[bool]string{true: "config ", false: "layer "}[d == blobs[0]]+seed), pushed+time.Minute)
			x.put(layout.LayerLink("a", d), layout.Link(d), pushed+time.Minute)
		}
		body, _, err := storage.Read(x.t.Context(), x.s, layout.BlobData(m), 1<<20)
		if err != nil {
			x.t.Fatal(err)
		}
		x.put(layout.BlobData(m), body, pushed)
		x.put(layout.RevisionLink("a", m), layout.Link(m), pushed)
		if tag != "" {
			x.put(layout.TagIndex("a", tag, m), layout.Link(m), pushed)
		}
		return m, blobs
	}
	onStores(t, func(t *testing.T, x volume) {
		kept, keptBlobs := young(x, "kept", "kept")
		deleted, deletedBlobs := young(x, "v1", "deleted")
		x.remove(layout.RevisionLink("a", deleted))
		x.remove(layout.TagCurrent("a", "v1"))
		moved, movedBlobs := young(x, "v2", "moved")
		child, childBlobs := young(x, "", "child")
		index := x.manifest("a", "v3", document{Manifests: []descriptor{{Digest: child}}})
		x.remove(layout.RevisionLink("a", index))
		x.remove(layout.TagCurrent("a", "v3"))
		x.put(layout.BlobData(index), []byte(`{"manifests":[{"digest":"`+string(child)+`"}]}`), pushed-time.Minute)
		untagged, untaggedBlobs := young(x, "v5", "untagged")
		body, _, err := storage.Read(t.Context(), x.s, layout.BlobData(untagged), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		x.remove(layout.TagCurrent("a", "v5"))
		x.remove(layout.TagIndex("a", "v5", untagged))
		x.put(layout.BlobData(untagged), body, pushed-time.Minute) // renewed by that
		told, toldBlobs := young(x, "v4", "told")
		x.remove(layout.RevisionLink("a", told))
		x.remove(layout.TagCurrent("a", "v4"))
		x.put(layout.LayerLink("a", toldBlobs[1]), layout.Link(toldBlobs[1]), time.Minute)
		loose := x.blob("a", "loose")
		x.put(layout.LayerLink("a", loose), layout.Link(loose), time.Minute)
		young(x, "v2", "new") // takes v2 from moved

		o := Options{Age: time.Hour, KeepAge: true, DeleteUntagged: true}
		x.run(o)
		for _, blobs := range [][]oci.Digest{deletedBlobs, movedBlobs, childBlobs, untaggedBlobs} {
			x.want("what is young stays for a schedule", layout.BlobData(blobs[1]), true)
		}
		o.Release = true
		x.run(o)
		x.whole("kept", "a", kept, keptBlobs)
		x.gone("deleted", "a", deleted, deletedBlobs)
		x.gone("moved", "a", moved, movedBlobs)
		x.gone("untagged", "a", untagged, untaggedBlobs)
		x.gone("child of a deleted index", "a", child, childBlobs)
		x.want("config of what was deleted", layout.BlobData(toldBlobs[0]), false)
		x.want("what somebody was told of since", layout.BlobData(toldBlobs[1]), true)
		x.want("what nothing has used yet", layout.BlobData(loose), true)
	})
}

// What is dated in the future is renewed, so that it grows old from now on.
func TestDatedInTheFuture(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		x.image("a", "v1", "kept")
		odd := x.blob("a", "odd")
		x.put(layout.LayerLink("a", odd), layout.Link(odd), -1000*day)
		report := x.run(Options{Age: time.Hour})
		if !x.serving {
			x.want("the link", layout.LayerLink("a", odd), false)
			return
		}
		info, err := x.s.Stat(t.Context(), layout.LayerLink("a", odd))
		if err != nil || time.Until(info.Modified) > time.Minute {
			t.Errorf("%v, modified %v", err, info.Modified)
		}
		if report.Future == 0 || report.Kept.Recent.Blobs != 1 {
			t.Errorf("%+v", report)
		}
	})
}

func TestDryRunCreatesNoFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	s, err := filesystem.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, dry := range []bool{true, false} {
		report, err := Run(t.Context(), Options{Store: s, Coordinator: s.Coordinator(), DryRun: dry})
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
	if report, err := Run(t.Context(), Options{Store: s, Coordinator: s.Coordinator(), DryRun: true}); err != nil || report.Blobs.Freed != 1 {
		t.Errorf("%v, %+v", err, report)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A prefix that cannot be read ends the run before anything is deleted: who knows
// what it needs.
func TestUnlistableRepositoryEndsTheRun(t *testing.T) {
	x := onMemory(t)
	x.blob("a", "garbage")
	x.s = unlistable{x.s}
	if _, err := x.tryRun(Options{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	x.want("bytes", layout.BlobData(oci.SHA256.FromBytes([]byte("garbage"))), true)
}

type unlistable struct{ storage.Store }

func (s unlistable) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if prefix == layout.Repository("a") {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, storage.ErrUnavailable) }
	}
	return s.Store.List(ctx, prefix, o)
}

// On a store whose requests fail or arrive late, and whose collectors die, nothing
// that is needed goes, and in the end all garbage does.
func TestFaultsAndDeaths(t *testing.T) {
	b := hostile.New(hostile.Options{Lease: 150 * time.Millisecond, MaxLate: 3 * time.Millisecond})
	setup := b.Process()
	defer setup.Close()
	x := volume{t: t, s: setup, c: setup, put: putter(t, setup, b.SetClock), remote: true}
	lease, err := setup.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	kept, keptBlobs := x.image("a", "v1", "kept")
	child, childBlobs := x.image("b", "", "child")
	index := x.manifest("b", "v1", document{Manifests: []descriptor{{Digest: child}}})
	var looks []func()
	whole := func() {
		x.whole("kept", "a", kept, keptBlobs)
		x.whole("child", "b", child, childBlobs)
		x.whole("index", "b", index, nil)
	}
	for try := range 12 {
		name := oci.Name(fmt.Sprint("c", try))
		m, blobs := x.image(name, "", fmt.Sprint("old ", try))
		looks = append(looks, func() { x.gone("garbage", name, m, blobs) })
		b.SetFault(hostile.Random(uint64(try), 0.03))
		p, events := b.Process(), 0
		o := Options{Store: p, Coordinator: p, Remote: true, DeleteUntagged: true, Wait: 2 * time.Second, Tell: func(Event) {
			if events++; events == 4+3*try && try%2 == 0 {
				p.Kill()
			}
		}}
		_, err := Run(t.Context(), o)
		for begun := time.Now(); errors.Is(err, storage.ErrBusy) && time.Since(begun) < 2*time.Second; _, err = Run(t.Context(), o) {
			time.Sleep(20 * time.Millisecond) // the lock of the one before
		}
		t.Log(err)
		b.SetFault(nil)
		p.Close()
		whole()
	}
	for giveUp := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := x.tryRun(Options{DeleteUntagged: true, Wait: 2 * time.Second})
		if err == nil {
			break
		}
		if !errors.Is(err, storage.ErrBusy) && !errors.Is(err, errLockLost) || time.Now().After(giveUp) {
			t.Fatal(err)
		}
	}
	whole()
	for _, look := range looks {
		look()
	}
}

// A collector that is stopped between its last look and the deletion deletes nothing when it
// goes on: its list is void by then, and a client was told of what it had listed.
func TestStoppedCollectorDeletesNothing(t *testing.T) {
	b := hostile.New(hostile.Options{Lease: time.Second})
	server, p := b.Process(), b.Process()
	defer server.Close()
	defer p.Close()
	x := volume{t: t, s: server, c: server, put: putter(t, server, b.SetClock), remote: true}
	lease, err := server.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	d := oci.SHA256.FromBytes([]byte("bytes"))
	x.put(layout.BlobData(d), []byte("bytes"), day)
	stopped := make(chan struct{})
	b.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" && strings.Contains(r.Key, "/linked/") { // the last look
			select {
			case <-stopped:
			default:
				p.Freeze()
				close(stopped)
			}
		}
		return hostile.None
	})
	ended := make(chan error, 1)
	go func() {
		for begun := time.Now(); ; {
			_, err := Run(context.Background(), Options{Store: p, Coordinator: p, Remote: true, Wait: 10 * time.Second})
			select {
			case <-stopped:
			default:
				if (errors.Is(err, errLockLost) || errors.Is(err, storage.ErrBusy)) && time.Since(begun) < 30*time.Second {
					time.Sleep(20 * time.Millisecond)
					continue // a machine that is too slow for the lease
				}
			}
			ended <- err
			return
		}
	}()
	select {
	case <-stopped:
	case err := <-ended:
		t.Fatalf("the run ended before its last look: %v", err)
	}
	defer p.Thaw()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s, err := server.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		void := !s.Listed(layout.BlobData(d))
		s.End()
		if void {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the list of a collector that is stopped is not void")
		}
	}
	p.Thaw()
	if err := <-ended; !errors.Is(err, errLockLost) {
		t.Errorf("the run ended with %v", err)
	}
	x.want("bytes that a client was told of", layout.BlobData(d), true)
}
