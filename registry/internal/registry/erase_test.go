package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// dying is a storage whose process dies after so many stages of the next commit.
type dying struct {
	driver.Driver
	stages int
	armed  bool
}

var errDied = errors.New("died")

func (d *dying) Commit(ctx context.Context, stages ...driver.Stage) error {
	if d.armed && d.stages < len(stages) {
		if err := d.Driver.Commit(ctx, stages[:d.stages]...); err != nil {
			return err
		}
		return errDied
	}
	return d.Driver.Commit(ctx, stages...)
}

func (d *dying) Discard(ctx context.Context, path string) error {
	if d.armed {
		return errDied
	}
	return d.Driver.Discard(ctx, path)
}

// aged is a storage a while later: nobody has in his hands what it holds.
type aged struct{ driver.Driver }

func (a aged) Now() time.Time { return a.Driver.Now().Add(commitTimeout + time.Minute) }

// A deletion that dies at any step has happened or has not, for whoever asks,
// and the next process finishes what is begun. Where a collector of garbage has
// the manifest's link meanwhile makes no difference.
func TestDeletionIsWhole(t *testing.T) {
	for name, open := range drivers {
		for stages := range 4 {
			for _, aside := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " dies after ", stages, ", aside ", aside), func(t *testing.T) {
					testDyingDeletion(t, open(t), stages, aside)
				})
			}
		}
	}
}

func testDyingDeletion(t *testing.T, d driver.Driver, stages int, aside bool) {
	store := &dying{Driver: d, stages: stages}
	ctx, repo := context.Background(), New(Options{Driver: store, DeleteEnabled: true}).Repository("a")
	x := pushImage(t, repo, "one", "x")
	pushImage(t, repo, "two", "x")
	kept := pushImage(t, repo, "kept", "y")
	if aside {
		putAside(t, d, layout.RevisionLink("a", x))
	}
	store.armed = true
	repo.DeleteManifest(ctx, x) //nolint:errcheck // nobody hears of it
	store.armed = false
	next := New(Options{Driver: d, DeleteEnabled: true})
	wantSame(t, next.Repository("a"), x, stages >= 2)
	check(t, errors.Join(next.finishDeletions(ctx)...))
	wantSame(t, next.Repository("a"), x, stages >= 2)
	later := New(Options{Driver: aged{d}, DeleteEnabled: true})
	check(t, errors.Join(later.finishDeletions(ctx)...))
	check(t, later.RecoverTags(ctx))
	wantSame(t, next.Repository("a"), x, stages >= 2)
	want := []string{"kept"}
	if stages < 2 {
		want = append(want, "one", "two")
	}
	wantWholeTags(t, next.Repository("a"), want)
	m, err := next.Repository("a").Manifest(ctx, tagged("kept"))
	check(t, err)
	if m.Digest != kept {
		t.Errorf("kept is %s", m.Digest)
	}
	if n := countNotes(t, d); n != 0 {
		t.Errorf("%d notes are left", n)
	}
}

// wantSame checks that the manifest is gone, or there, by digest and by tag alike.
func wantSame(t *testing.T, repo Repository, d oci.Digest, gone bool) {
	t.Helper()
	for _, ref := range []oci.Reference{{Digest: d}, tagged("one"), tagged("two")} {
		_, err := repo.Manifest(context.Background(), ref)
		if gone != isCode(err, oci.CodeManifestUnknown) {
			t.Errorf("%s: %v, want gone = %v", ref, err, gone)
		}
	}
}

// tagLooks counts the looks at tags.
type tagLooks struct {
	driver.Driver
	looks int
}

func (c *tagLooks) Version(ctx context.Context, path string) (string, bool) {
	c.looks++
	return c.Driver.Version(ctx, path)
}

// A deletion looks at the tags of the manifest, not at all there are.
func TestDeletionCostsWhatItTouches(t *testing.T) {
	store := &tagLooks{Driver: drivers["filesystem"](t)}
	ctx, r := context.Background(), New(Options{Driver: store, DeleteEnabled: true})
	leave, err := r.Serve(ctx)
	check(t, err)
	defer leave()
	repo := r.Repository("a")
	for i := range 200 {
		pushImage(t, repo, fmt.Sprint("t", i), "x")
	}
	_, err = repo.DeleteManifest(ctx, pushImage(t, repo, "first", "first"))
	check(t, err)
	m := pushImage(t, repo, "moved", "y")
	pushImage(t, repo, "new", "y")
	pushImage(t, repo, "t7", "y")
	pushImage(t, repo, "moved", "x")
	store.looks = 0
	removed, err := repo.DeleteManifest(ctx, m)
	check(t, err)
	slices.Sort(removed)
	if !slices.Equal(removed, []oci.Tag{"new", "t7"}) {
		t.Errorf("removed %q", removed)
	}
	if store.looks > 10 {
		t.Errorf("%d looks", store.looks)
	}
}

// Tags that somebody set who does not say that he serves go with their manifest,
// too: new ones and such as pointed elsewhere.
func TestDeletionSeesTagsOfOthers(t *testing.T) {
	store := &tagLooks{Driver: drivers["filesystem"](t)}
	ctx, r := context.Background(), New(Options{Driver: store, DeleteEnabled: true})
	leave, err := r.Serve(ctx)
	check(t, err)
	defer leave()
	repo, other := r.Repository("a"), New(Options{Driver: store.Driver}).Repository("a")
	d := pushImage(t, repo, "one", "x")
	pushImage(t, repo, "moved", "y")
	_, err = repo.DeleteManifest(ctx, pushImage(t, repo, "first", "first"))
	check(t, err)
	time.Sleep(2 * clockTick)
	pushImage(t, other, "new", "x")
	pushImage(t, other, "moved", "x")
	removed, err := repo.DeleteManifest(ctx, d)
	check(t, err)
	slices.Sort(removed)
	if !slices.Equal(removed, []oci.Tag{"moved", "new", "one"}) {
		t.Errorf("removed %q", removed)
	}
}

// unflushed is a storage on which removals are seen, but not durable.
type unflushed struct {
	driver.Driver
	flush error
}

func (u unflushed) Commit(ctx context.Context, stages ...driver.Stage) error {
	if err := u.Driver.Commit(ctx, stages...); err != nil {
		return err
	}
	return errDied
}

func (u unflushed) Flush(context.Context, ...string) error { return u.flush }

// A deletion is acknowledged when the manifest cannot come back, and its note
// stays until its tags are gone.
func TestDeletionIsDurable(t *testing.T) {
	for name, open := range drivers {
		for _, flush := range []error{nil, errDied} {
			t.Run(fmt.Sprint(name, " flush ", flush), func(t *testing.T) {
				store := open(t)
				repo := New(Options{Driver: store}).Repository("a")
				pushImage(t, repo, "kept", "y")
				d := pushImage(t, repo, "one", "x")
				_, err := New(Options{Driver: unflushed{store, flush}, DeleteEnabled: true}).Repository("a").DeleteManifest(t.Context(), d)
				if (err == nil) != (flush == nil) {
					t.Errorf("deleted: %v", err)
				}
				if n := countNotes(t, store); n != 1 {
					t.Errorf("%d notes", n)
				}
				check(t, errors.Join(New(Options{Driver: store}).finishDeletions(t.Context())...))
				wantWholeTags(t, repo, []string{"kept"})
			})
		}
	}
}

// widest notes the largest stage of all commits.
type widest struct {
	driver.Driver
	changes int
}

func (w *widest) Commit(ctx context.Context, stages ...driver.Stage) error {
	for _, stage := range stages {
		w.changes = max(w.changes, len(stage))
	}
	return w.Driver.Commit(ctx, stages...)
}

// A manifest with very many tags does not keep others from committing while they
// are removed.
func TestManyTagsGoInTurns(t *testing.T) {
	store := &widest{Driver: drivers["memory"](t)}
	r := New(Options{Driver: store, DeleteEnabled: true})
	leave, err := r.Serve(t.Context())
	check(t, err)
	defer leave()
	repo := r.Repository("a")
	pushImage(t, repo, "kept", "k")
	d := pushImage(t, repo, "one", "x")
	for i := range 3 * tagsAtOnce {
		path := layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i)))
		check(t, store.WriteScratch(t.Context(), path, layout.Link(d)))
	}
	removed, err := repo.DeleteManifest(t.Context(), d)
	check(t, err)
	if len(removed) != 1+3*tagsAtOnce || store.changes > 2*tagsAtOnce {
		t.Errorf("removed %d tags, %d changes at once", len(removed), store.changes)
	}
	wantWholeTags(t, repo, []string{"kept"})
}
