package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

func TestDeleteRepository(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		repo, below := r.Repository("a"), r.Repository("a/b")
		d := pushImage(t, repo, "v1", "one")
		pushImage(t, repo, "v2", "two")
		pushImage(t, below, "v1", "three")
		check(t, repo.Delete(t.Context()))
		names, _, err := r.Catalog(t.Context(), 10, "", nil)
		check(t, err)
		if !slices.Equal(names, []string{"a/b"}) {
			t.Errorf("catalog = %q", names)
		}
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
		tags, _, err := repo.Tags(t.Context(), -1, "") // its blobs are still there
		check(t, err)
		if len(tags) > 0 {
			t.Errorf("tags = %q", tags)
		}
		wantCode(t, repo.Delete(t.Context()), oci.CodeNameUnknown)
		wantCode(t, r.Repository("never").Delete(t.Context()), oci.CodeNameUnknown)
		if pushImage(t, repo, "v1", "one") != d {
			t.Error("pushed again, it is another image")
		}
		_, err = below.Manifest(t.Context(), tagged("v1"))
		check(t, err)
	})
}

func TestDeleteRepositoryIsRefused(t *testing.T) {
	d := stores["memory"](t)
	names, err := pattern.ParseNames([]string{"release"})
	check(t, err)
	tags, err := pattern.ParseTags([]string{"v.*"})
	check(t, err)
	r := newRegistry(d, Options{DeleteEnabled: true, Immutable: []TagRule{{Repositories: names, Tags: tags}}})
	pushImage(t, r.Repository("release"), "v1", "one")
	if err := r.Repository("release").Delete(context.Background()); !errors.Is(err, ErrImmutable) {
		t.Errorf("got %v", err)
	}
	wantCode(t, newRegistry(d, Options{}).Repository("release").Delete(t.Context()), oci.CodeUnsupported)
	_, err = r.Repository("release").Manifest(t.Context(), tagged("v1"))
	check(t, err)
}

// meddled is a store where something happens just before or after an object is
// deleted, or between the stages of an Apply.
type meddled struct {
	both
	deleted       string
	before, after func()
	between       func()
}

func (m *meddled) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for i, stage := range stages {
		meddle := slices.ContainsFunc(stage, func(c storage.Change) bool { return c.Delete && c.Key == m.deleted })
		if meddle && m.before != nil {
			m.before()
		}
		if err := m.both.Apply(ctx, a, stage); err != nil {
			return err
		}
		if meddle && m.after != nil {
			m.after()
		}
		if i == 0 && len(stages) > 1 && m.between != nil {
			m.between()
		}
	}
	return nil
}

// What is pushed through one server while another deletes a manifest is never
// lost, and no tag is left that points at nothing.
func TestDeletionBesideAnotherServer(t *testing.T) {
	for kind, open := range stores {
		for _, tt := range []struct {
			name   string
			before func(t *testing.T, other Repository)
			after  func(t *testing.T, other Repository)
			want   []string // tags
		}{
			{"a tag is moved away just before", func(t *testing.T, o Repository) { pushImage(t, o, "one", "y") }, nil, []string{"kept", "one"}},
			{"a tag is moved away just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "one", "y") }, []string{"kept", "one"}},
			{"it is tagged just before", func(t *testing.T, o Repository) { pushImage(t, o, "new", "x") }, nil, []string{"kept"}},
			{"it is tagged just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "new", "x") }, []string{"kept", "new"}},
			{"a tag of it is pushed again just after", nil, func(t *testing.T, o Repository) { pushImage(t, o, "two", "x") }, []string{"kept", "two"}},
		} {
			t.Run(kind+": "+tt.name, func(t *testing.T) {
				store := &meddled{both: open(t)}
				repo := newRegistry(store, Options{DeleteEnabled: true}).Repository("a")
				other := newRegistry(store.both, Options{DeleteEnabled: true}).Repository("a")
				pushImage(t, repo, "kept", "z")
				d := pushImage(t, repo, "one", "x")
				pushImage(t, repo, "two", "x")
				store.deleted = layout.RevisionLink("a", d)
				store.before = func() {
					if tt.before != nil {
						tt.before(t, other)
					}
				}
				store.after = func() {
					if tt.after != nil {
						tt.after(t, other)
					}
				}
				_, err := repo.DeleteManifest(t.Context(), d)
				check(t, err)
				wantWholeTags(t, repo, tt.want)
			})
		}
	}
}

// wantWholeTags checks that those tags are listed, and that each pulls.
func wantWholeTags(t *testing.T, repo Repository, want []string) {
	t.Helper()
	tags, _, err := repo.Tags(t.Context(), -1, "")
	check(t, err)
	if !slices.Equal(tags, want) {
		t.Errorf("tags = %q, want %q", tags, want)
	}
	for _, tag := range tags {
		if _, err := repo.Manifest(t.Context(), tagged(tag)); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// A push that has written the manifest's link before it is deleted, and writes
// its tag after, is waited for: the tag goes with the manifest.
func TestDeletionBesideAPush(t *testing.T) {
	for name, remove := range map[string]func(r Repository, d oci.Digest) error{
		"manifest": func(r Repository, d oci.Digest) error {
			_, err := r.DeleteManifest(context.Background(), d)
			return err
		},
		"repository": func(r Repository, _ oci.Digest) error { return r.Delete(context.Background()) },
	} {
		for kind, open := range stores {
			t.Run(name+" "+kind, func(t *testing.T) {
				pushing := &meddled{both: open(t)}
				repo := newRegistry(pushing.both, Options{DeleteEnabled: true}).Repository("a")
				d := pushImage(t, repo, "one", "x")
				deleted := make(chan error, 1)
				pushing.between = func() {
					pushing.between = nil
					go func() { deleted <- remove(repo, d) }()
					for {
						if _, err := pushing.Stat(t.Context(), layout.RevisionLink("a", d)); absent(err) {
							break
						}
						time.Sleep(time.Millisecond)
					}
				}
				m, err := newRegistry(pushing.both, Options{}).Repository("a").Manifest(t.Context(), oci.Reference{Digest: d})
				check(t, err)
				_, err = newRegistry(pushing, Options{}).Repository("a").PutManifest(t.Context(), tagged("late"), m.MediaType, m.Bytes, nil)
				check(t, err)
				check(t, <-deleted)
				tags, _, err := repo.Tags(t.Context(), -1, "")
				if oci.HasCode(err, oci.CodeNameUnknown) {
					return
				}
				check(t, err)
				wantWholeTags(t, repo, tags) // the push may have come last
			})
		}
	}
}

// A tag that comes with a new push of the manifest, once that is deleted, stays.
func TestDeletedManifestIsPushedAgain(t *testing.T) {
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			s := open(t)
			repo := newRegistry(s, Options{}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			m, err := repo.Manifest(t.Context(), oci.Reference{Digest: d})
			check(t, err)
			pushed := false
			after := &afterDeletion{both: s, key: layout.RevisionLink("a", d), then: func() {
				pushed = true
				_, err := repo.PutManifest(t.Context(), tagged("late"), m.MediaType, m.Bytes, nil)
				check(t, err)
			}}
			_, err = newRegistry(after, Options{DeleteEnabled: true}).Repository("a").DeleteManifest(t.Context(), d)
			check(t, err)
			if _, err := s.Stat(t.Context(), layout.TagCurrent("a", "late")); err != nil || !pushed {
				t.Errorf("pushed %v: the tag: %v", pushed, err)
			}
		})
	}
}

// afterDeletion is a store that calls then once it has deleted the object at key.
type afterDeletion struct {
	both
	key  string
	then func()
}

func (s *afterDeletion) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	err := s.both.Apply(ctx, a, stages...)
	deletes := func(c storage.Change) bool { return c.Key == s.key && c.Delete }
	if then := s.then; then != nil && slices.ContainsFunc(slices.Concat(stages...), deletes) {
		s.then = nil
		then()
	}
	return err
}

// While a deletion looks through the tags, nobody waits for it.
func TestDeletionHoldsNobodyUp(t *testing.T) {
	looking, release := make(chan struct{}, 100), make(chan struct{})
	var stall atomic.Bool
	s := &hookedtest.Store{Store: stores["memory"](t), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op != hookedtest.List && stall.Load() && strings.HasSuffix(key, "/current/link") {
			looking <- struct{}{}
			<-release
		}
		return nil
	}}
	r := newRegistry(s, Options{DeleteEnabled: true})
	d := pushImage(t, r.Repository("a"), "one", "x")
	stall.Store(true)
	deleted := make(chan error, 1)
	go func() {
		_, err := r.Repository("a").DeleteManifest(context.Background(), d)
		deleted <- err
	}()
	<-looking
	other := pushImage(t, r.Repository("a"), "two", "y")
	_, err := r.Repository("a").Manifest(t.Context(), oci.Reference{Digest: other})
	check(t, err)
	stall.Store(false)
	close(release)
	check(t, <-deleted)
	wantWholeTags(t, r.Repository("a"), []string{"two"})
}

var errDied = errors.New("died")

// A deletion that ends in the middle leaves nothing that a retry does not finish.
func TestInterruptedDeletionIsRepeated(t *testing.T) {
	for kind, open := range stores {
		for steps := range 3 {
			t.Run(fmt.Sprint(kind, " after ", steps), func(t *testing.T) {
				left := -1 // never
				store := &hookedtest.Store{Store: open(t), OnApply: func([]storage.Stage) error {
					if left == 0 {
						return errDied
					}
					left--
					return nil
				}}
				repo := newRegistry(store, Options{DeleteEnabled: true}).Repository("a")
				pushImage(t, repo, "kept", "z")
				d := pushImage(t, repo, "one", "x")
				pushImage(t, repo, "two", "x")
				time.Sleep(2 * versionPause)
				left = steps
				_, err := repo.DeleteManifest(t.Context(), d)
				if (err == nil) != (steps == 2) {
					t.Fatalf("after %d steps: %v", steps, err)
				}
				left = -1
				if err != nil {
					_, err = repo.DeleteManifest(t.Context(), d)
					check(t, err)
				}
				wantWholeTags(t, repo, []string{"kept"})
				_, err = repo.DeleteManifest(t.Context(), d)
				wantCode(t, err, oci.CodeManifestUnknown)
			})
		}
	}
}

// Deleting a manifest that is gone deletes the tags that still point at it.
func TestDeletionOfDanglingTags(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "kept", "z")
		d := pushImage(t, repo, "one", "x")
		removeObject(t, r.store, layout.RevisionLink("a", d))
		removed, err := repo.DeleteManifest(t.Context(), d)
		check(t, err)
		if !slices.Equal(removed, []oci.Tag{"one"}) {
			t.Errorf("removed %q", removed)
		}
		wantWholeTags(t, repo, []string{"kept"})
	})
}

// What frees space needs none: a deletion writes no object.
func TestDeletionWritesNothing(t *testing.T) {
	rec := newRecorder(stores["memory"](t))
	repo := newRegistry(rec, Options{DeleteEnabled: true}).Repository("a")
	d := pushImage(t, repo, "one", "x")
	pushImage(t, repo, "two", "y")
	rec.applied = nil
	_, err := repo.DeleteManifest(t.Context(), d)
	check(t, err)
	check(t, deleteTag(t.Context(), repo, "two"))
	check(t, repo.DeleteBlob(t.Context(), sum("layer x")))
	check(t, repo.Delete(t.Context()))
	for _, stages := range rec.applied {
		for _, c := range slices.Concat(stages...) {
			if !c.Delete && !c.Renew { // which may fail
				t.Errorf("%s is written", c.Key)
			}
		}
	}
}

// A manifest with very many tags does not keep others from writing while they
// are deleted.
func TestManyTagsGoInTurns(t *testing.T) {
	rec := newRecorder(stores["memory"](t))
	repo := newRegistry(rec, Options{DeleteEnabled: true}).Repository("a")
	pushImage(t, repo, "kept", "k")
	d := pushImage(t, repo, "one", "x")
	for i := range 3 * tagsAtOnce {
		putObject(t, rec.Store.Store, layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i))), string(d))
	}
	rec.applied = nil
	removed, err := repo.DeleteManifest(t.Context(), d)
	check(t, err)
	if len(removed) != 1+3*tagsAtOnce {
		t.Errorf("removed %d tags", len(removed))
	}
	for _, stages := range rec.applied {
		if n := len(slices.Concat(stages...)); n > 2*tagsAtOnce {
			t.Errorf("%d changes at once", n)
		}
	}
	wantWholeTags(t, repo, []string{"kept"})
}

// What a push points a tag at while the tag is deleted is what the deletion reports, whether it can be undone or not.
func TestDeleteTag_Moved(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		s := &hookedtest.Store{Store: stores["memory"](t)}
		repo := New(Options{Store: s, DeleteEnabled: true, KeepDeleted: keep}).Repository("a")
		pushImage(t, repo, "v1", "one")
		var moved oci.Digest
		s.OnApply = func(stages []storage.Stage) error {
			if c := stages[0][0]; c.Delete && c.Key == layout.TagCurrent("a", "v1") && moved == "" {
				moved = "begun"
				moved = pushImage(t, repo, "v1", "two")
			}
			return nil
		}
		if was, err := repo.DeleteTag(t.Context(), "v1"); was != moved || err != nil {
			t.Errorf("kept for %v: deleted %q, %v, want %q", keep, was, err, moved)
		}
		wantWholeTags(t, repo, nil)
	}
}

func TestDeleteTagIf(t *testing.T) {
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			r := immutableRegistry(t, name)
			repo := r.Repository("prod/app")
			pushImage(t, repo, "old", "a")
			pushImage(t, repo, "v1", "a")
			pushImage(t, repo, "moved", "a")
			time.Sleep(2 * versionPause)
			version := func(tag oci.Tag) string {
				info, err := r.store.Stat(t.Context(), layout.TagCurrent("prod/app", tag))
				check(t, err)
				return info.Version
			}
			before := version("moved")
			pushImage(t, repo, "moved", "b")
			for tag, v := range map[oci.Tag]string{"moved": before, "v1": version("v1"), "none": before, "old": ""} {
				if removed, err := repo.DeleteTagIf(t.Context(), tag, "", v); removed || err != nil {
					t.Errorf("%s: removed %v, %v", tag, removed, err)
				}
			}
			if removed, err := repo.DeleteTagIf(t.Context(), "old", "", version("old")); !removed || err != nil {
				t.Fatal(removed, err)
			}
			wantWholeTags(t, repo, []string{"moved", "v1"})
			keys, err := r.store.Keys(t.Context(), layout.Tag("prod/app", "old"))
			check(t, err)
			if len(keys) > 0 {
				t.Errorf("%q are left", keys)
			}
			pushImage(t, repo, "old", "b")
		})
	}
}
