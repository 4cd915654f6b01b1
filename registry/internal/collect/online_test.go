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
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
)

// beside runs beside a server and calls f once, between the first look at a
// repository, which has a manifest that stays, and the deletion of its garbage.
func beside(t *testing.T, o Options, f func(x volume, kept oci.Digest, garbage oci.Digest)) (volume, Report, error) {
	t.Helper()
	x := onMemory(t)
	x.c = &oneList{Coordinator: x.c, t: t}
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
		go func() {
			defer s.End()
			for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				withdrawn := x.c.(*oneList).withdrawn()
				other, err := x.c.Begin(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				listed := other.Listed(layout.LayerLink("b", garbage))
				if other.End(); withdrawn && !listed {
					return
				}
				if time.Now().After(end) {
					t.Errorf("withdrawn %v, listed %v", withdrawn, listed)
					return
				}
			}
		}()
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

// What a client has renewed long after a run began is not dated in the future, and keeps its
// date.
func TestRenewedInALongRun(t *testing.T) {
	r := newRun(Options{Age: time.Hour})
	r.begun = time.Now().Add(-time.Hour)
	renewed := time.Now().Add(-time.Minute)
	got, err := r.age(t.Context(), storage.Info{Key: "/x", Modified: renewed}, "")
	if err != nil || !got.Equal(renewed) || r.report.Future != 0 || !r.young(got) {
		t.Errorf("%v, %v, %+v", got, err, r.report)
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
