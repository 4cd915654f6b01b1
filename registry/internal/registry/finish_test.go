package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A deletion that failed does not happen later, when others rely on the manifest.
func TestFailedDeletionNeverHappens(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &dying{Driver: open(t), stages: 1, armed: true}
			ctx, r := context.Background(), New(Options{Driver: store.Driver})
			repo := r.Repository("a")
			child := put(t, repo, tagged("one"), simpleImage(t, repo, "x")).Descriptor
			_, err := New(Options{Driver: store, DeleteEnabled: true}).Repository("a").DeleteManifest(ctx, child.Digest)
			if err == nil {
				t.Fatal("the deletion did not fail")
			}
			put(t, repo, tagged("multi"), image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{child}})
			for _, left := range []struct {
				store driver.Driver
				notes int
			}{{store.Driver, 1}, {aged{store.Driver}, 0}} {
				check(t, errors.Join(New(Options{Driver: left.store}).finishDeletions(ctx)...))
				_, err = repo.Manifest(ctx, oci.Reference{Digest: child.Digest})
				check(t, err)
				wantWholeTags(t, repo, []string{"multi", "one"})
				if n := countNotes(t, store.Driver); n != left.notes {
					t.Errorf("%d notes, want %d", n, left.notes)
				}
			}
		})
	}
}

func countNotes(t *testing.T, d driver.Driver) (n int) {
	t.Helper()
	for _, err := range d.List(t.Context(), layout.Deleting, "") {
		if absent(err) {
			return n
		}
		check(t, err)
		n++
	}
	return n
}

// A deletion that has not yet removed the manifest is not disturbed by who
// finishes those that died.
func TestFinishLeavesDeletionsUnderWay(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &meddled{Driver: open(t)}
			r := New(Options{Driver: store, DeleteEnabled: true})
			other, repo := New(Options{Driver: store.Driver, DeleteEnabled: true}), r.Repository("a")
			pushImage(t, repo, "kept", "y")
			d := pushImage(t, repo, "one", "x")
			store.between = func() {
				check(t, errors.Join(other.finishDeletions(t.Context())...))
				if _, err := other.Repository("a").Manifest(t.Context(), oci.Reference{Digest: d}); err != nil {
					t.Error(err)
				}
				if n := countNotes(t, store.Driver); n != 1 {
					t.Errorf("%d notes", n)
				}
			}
			_, err := repo.DeleteManifest(t.Context(), d)
			check(t, err)
			wantWholeTags(t, repo, []string{"kept"})
		})
	}
}

// A deletion that failed, or died, before the manifest's link was gone does not
// happen because a collector of garbage moves the link aside.
func TestFailedDeletionNeverTakesWhatIsAside(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &dying{Driver: open(t), stages: 1, armed: true}
			r := New(Options{Driver: store.Driver})
			repo := r.Repository("a")
			pushImage(t, repo, "kept", "y")
			d := pushImage(t, repo, "one", "x")
			if _, err := New(Options{Driver: store, DeleteEnabled: true}).Repository("a").DeleteManifest(t.Context(), d); err == nil {
				t.Fatal("the deletion did not fail")
			}
			for _, left := range []struct {
				store driver.Driver
				notes int
			}{{store.Driver, 1}, {aged{store.Driver}, 0}} {
				putAside(t, r.driver, layout.RevisionLink("a", d))
				check(t, errors.Join(New(Options{Driver: left.store}).finishDeletions(t.Context())...))
				wantWholeTags(t, repo, []string{"kept", "one"})
				_, err := repo.Manifest(t.Context(), oci.Reference{Digest: d})
				check(t, err)
				if n := countNotes(t, r.driver); n != left.notes {
					t.Errorf("%d notes, want %d", n, left.notes)
				}
			}
		})
	}
}

// What was pushed after a deletion had died is not taken away by who finishes it.
func TestFinishedDeletionSparesWhatIsNew(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &dying{Driver: open(t), stages: 2, armed: true}
			ctx, r := context.Background(), New(Options{Driver: store.Driver, DeleteEnabled: true})
			repo := r.Repository("a")
			d := pushImage(t, repo, "one", "x")
			pushImage(t, repo, "two", "x")
			New(Options{Driver: store, DeleteEnabled: true}).Repository("a").DeleteManifest(ctx, d) //nolint:errcheck // nobody hears of it
			other := pushImage(t, repo, "one", "y")
			check(t, errors.Join(r.finishDeletions(ctx)...))
			m, err := repo.Manifest(ctx, tagged("one"))
			check(t, err)
			if m.Digest != other {
				t.Errorf("one is %s", m.Digest)
			}
			_, err = repo.Manifest(ctx, tagged("two"))
			wantCode(t, err, oci.CodeManifestUnknown)
		})
	}
}

// A note that cannot be used holds up no other. It is told of once, by its name,
// and used when it can be.
func TestBadNoteHoldsUpNoOther(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &unreadable{Driver: open(t)}
			core, logged := observer.New(zap.WarnLevel)
			r := New(Options{Driver: store, Log: zap.New(core)})
			repo := r.Repository("a")
			pushImage(t, repo, "kept", "k")
			for _, tag := range []string{"one", "two", "three"} {
				dying := &dying{Driver: store.Driver, stages: 2, armed: true}
				d := pushImage(t, repo, tag, tag)
				New(Options{Driver: dying, DeleteEnabled: true}).Repository("a").DeleteManifest(t.Context(), d) //nolint:errcheck // nobody hears of it
			}
			bad := layout.Deleting + "/AAA"
			check(t, store.WriteScratch(t.Context(), bad, []byte("{")))
			for e, err := range store.List(t.Context(), layout.Deleting, "AAA") {
				check(t, err)
				store.path, store.times = layout.Deleting+"/"+e.Name, 2
				break
			}
			for range 2 {
				r.Recover(t.Context())
				if n := countNotes(t, store); n != 2 {
					t.Errorf("%d notes, want the bad one and the unreadable one", n)
				}
			}
			if n := len(logged.All()); n != 2 || !strings.Contains(fmt.Sprint(logged.All()), bad) || !strings.Contains(fmt.Sprint(logged.All()), store.path) {
				t.Errorf("logged %d times: %v", n, logged.All())
			}
			r.Recover(t.Context())
			wantWholeTags(t, repo, []string{"kept"})
			if n := countNotes(t, store); n != 1 {
				t.Errorf("%d notes, want the bad one", n)
			}
			if n := len(logged.All()); n != 2 {
				t.Errorf("logged %d times", n)
			}
		})
	}
}

// The notes of a manifest with very many tags can be read again, and hold all of
// them.
func TestNotesOfManyTags(t *testing.T) {
	e := erasure{Repository: "a", Digest: sum("x"), Tags: map[oci.Tag]int64{}}
	long := strings.Repeat("t", oci.MaxTagLength-10)
	for i := range 2*maxNoted + 1 {
		e.Tags[oci.Tag(fmt.Sprint(long, i))] = int64(i)
	}
	paths, stages, err := e.notes()
	check(t, err)
	r := New(Options{Driver: drivers["memory"](t)})
	check(t, r.driver.Commit(t.Context(), stages...))
	for _, path := range paths {
		part, err := r.readNote(t.Context(), path)
		check(t, err)
		for tag, since := range part.Tags {
			if e.Tags[tag] != since {
				t.Fatalf("%s is noted with %d", tag, since)
			}
			delete(e.Tags, tag)
		}
	}
	if len(paths) != 3 || len(e.Tags) != 0 {
		t.Errorf("%d notes, %d tags are missing", len(paths), len(e.Tags))
	}
}

// counting is a storage that counts what is set aside, and at first does more.
type counting struct {
	driver.Driver
	n      atomic.Int64
	pushed atomic.Int64 // what n was at the last commit
	first  func()
}

func (c *counting) Commit(ctx context.Context, stages ...driver.Stage) error {
	c.pushed.Store(c.n.Load())
	return c.Driver.Commit(ctx, stages...)
}

func (c *counting) SetAside(ctx context.Context, path, aside string) error {
	if c.n.Add(1) == 1 {
		c.first()
	}
	return c.Driver.SetAside(ctx, path, aside)
}

// A deletion of very many tags that is finished lets others have their turn.
func TestFinishingTakesTurns(t *testing.T) {
	const n = 3 * tagsFinished
	store := &counting{Driver: drivers["memory"](t)}
	r := New(Options{Driver: store, DeleteEnabled: true})
	repo := r.Repository("a")
	d := pushImage(t, repo, "kept", "z")
	e := erasure{Repository: "a", Digest: sum("gone"), Tags: map[oci.Tag]int64{}}
	var links driver.Stage
	for i := range n {
		links = append(links, driver.Change{Path: layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i))), Content: layout.Link(e.Digest)})
	}
	check(t, store.Commit(t.Context(), links))
	for i := range n {
		tag := oci.Tag(fmt.Sprint("t", i))
		e.Tags[tag] = linkTime(t, repo, tag).UnixNano()
	}
	_, noting, err := e.notes()
	check(t, err)
	check(t, store.Commit(t.Context(), noting...))
	image, pushed := simpleImage(t, repo, "z"), make(chan struct{})
	store.first = func() {
		go func() {
			defer close(pushed)
			put(t, repo, tagged("new"), image)
		}()
		time.Sleep(10 * time.Millisecond)
	}
	r.Recover(t.Context())
	<-pushed
	if store.pushed.Load() == n {
		t.Error("a push waited until all tags were taken")
	}
	wantWholeTags(t, repo, []string{"kept", "new"})
	if m, err := repo.Manifest(t.Context(), tagged("new")); err != nil || m.Digest != d {
		t.Errorf("got %v, %v", m, err)
	}
}
