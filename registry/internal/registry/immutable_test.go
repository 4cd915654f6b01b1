package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

// immutableRules keep the tags v… of the repositories below prod.
func immutableRules(t *testing.T) []TagRule {
	t.Helper()
	names, err := pattern.ParseNames([]string{"prod/**"})
	check(t, err)
	tags, err := pattern.ParseTags([]string{"v.*"})
	check(t, err)
	return []TagRule{{names, tags}}
}

func immutableRegistry(t *testing.T, store string) *Registry {
	return newRegistry(stores[store](t), Options{DeleteEnabled: true, Immutable: immutableRules(t)})
}

func TestImmutableTags(t *testing.T) {
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			ctx, r := context.Background(), immutableRegistry(t, name)
			prod, other := r.Repository("prod/app"), r.Repository("other")
			first := pushImage(t, prod, "v1", "a")
			second := simpleImage(t, prod, "b")

			_, err := prod.PutManifest(ctx, tagged("v1"), "", second.bytes(), nil)
			wantImmutable(t, err)
			_, err = prod.PutManifest(ctx, tagged("latest"), "", second.bytes(), []oci.Tag{"v2", "v1"})
			wantImmutable(t, err)
			if tags, _, err := prod.Tags(ctx, -1, ""); err != nil || !slices.Equal(tags, []string{"v1"}) {
				t.Errorf("a refused push left %v, %v", tags, err)
			}
			if got := pushImage(t, prod, "v1", "a"); got != first {
				t.Errorf("the same image again is %s", got)
			}
			wantImmutable(t, deleteTag(ctx, prod, "v1"))
			_, err = prod.DeleteManifest(ctx, first)
			wantImmutable(t, err)
			if m, err := prod.Manifest(ctx, tagged("v1")); err != nil || m.Digest != first {
				t.Errorf("the tag is %v, %v", m, err)
			}

			put(t, prod, tagged("latest"), second)
			pushImage(t, prod, "latest", "c") // not of the pattern
			check(t, deleteTag(ctx, prod, "latest"))
			_, err = prod.DeleteManifest(ctx, sum(string(second.bytes())))
			check(t, err)
			wantCode(t, deleteTag(ctx, prod, "v9"), oci.CodeManifestUnknown)

			pushImage(t, other, "v1", "a") // not of the repositories
			pushImage(t, other, "v1", "b")
			check(t, deleteTag(ctx, other, "v1"))
		})
	}
}

// An immutable tag whose link holds no digest can be set.
func TestImmutableTagWithBadLink(t *testing.T) {
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			r := immutableRegistry(t, name)
			prod := r.Repository("prod/app")
			putObject(t, r.store, layout.TagCurrent("prod/app", "v1"), "")
			time.Sleep(2 * versionPause)
			d := pushImage(t, prod, "v1", "a")
			if m, err := prod.Manifest(t.Context(), tagged("v1")); err != nil || m.Digest != d {
				t.Errorf("the tag is %v, %v", m, err)
			}
		})
	}
}

func wantImmutable(t *testing.T, err error) {
	t.Helper()
	wantCode(t, err, oci.CodeDenied)
	if !errors.Is(err, ErrImmutable) {
		t.Errorf("got %v, want ErrImmutable inside", err)
	}
}

// A push that loses an immutable tag to another one at the same moment isn't in its history.
func TestImmutableTag_LoserLeavesNoHistory(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			var other func()
			s := &hookedtest.Store{Store: open(t), OnApply: func(stages []storage.Stage) error {
				if f := other; f != nil && len(stages) > 1 {
					other = nil
					f()
				}
				return nil
			}}
			prod := New(Options{Store: s, Remote: name == "hostile", Immutable: immutableRules(t)}).Repository("prod/app")
			loser, winner := simpleImage(t, prod, "a"), simpleImage(t, prod, "b")
			other = func() { put(t, prod, tagged("v1"), winner) }
			_, err := prod.PutManifest(t.Context(), tagged("v1"), "", loser.bytes(), nil)
			wantImmutable(t, err)
			history, err := prod.History(t.Context(), "v1")
			check(t, err)
			if len(history) != 1 || history[0].Digest != sum(string(winner.bytes())) || history[0].At.IsZero() {
				t.Errorf("the history is %+v", history)
			}
		})
	}
}

// Of many pushes of one immutable tag at the same time, through two processes, exactly
// one wins.
func TestImmutableTagRace(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			a, b := open(t)
			rules := immutableRules(t)
			repos := []Repository{
				newRegistry(a, Options{Immutable: rules}).Repository("prod/app"),
				newRegistry(b, Options{Immutable: rules}).Repository("prod/app"),
			}
			images := make([]image, 8)
			for i := range images {
				images[i] = simpleImage(t, repos[0], fmt.Sprint(i))
			}
			for round := range 5 {
				var won atomic.Int64
				var group sync.WaitGroup
				for i, img := range images {
					group.Go(func() {
						_, err := repos[i%2].PutManifest(context.Background(), tagged(fmt.Sprint("v", round)), "", img.bytes(), nil)
						if err == nil {
							won.Add(1)
						} else {
							wantImmutable(t, err)
						}
					})
				}
				group.Wait()
				if won.Load() != 1 {
					t.Fatalf("%d pushes of different images won the tag", won.Load())
				}
			}
		})
	}
}

// An immutable tag that is pushed at any step of a deletion, and acknowledged, stays with its image.
func TestImmutableTagBesideADeletion(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(Repository, oci.Digest) error{
		"manifest":   func(r Repository, d oci.Digest) error { _, err := r.DeleteManifest(ctx, d); return err },
		"repository": func(r Repository, _ oci.Digest) error { return r.Delete(ctx) },
	} {
		for _, keep := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, ", undoable for ", keep), func(t *testing.T) {
				t.Parallel()
				for at := 0; ; at++ {
					m := memory.New()
					s := &stepping{both: m, at: at}
					o := Options{DeleteEnabled: true, KeepDeleted: keep, Immutable: immutableRules(t)}
					repo, other := newRegistry(s, o).Repository("prod/app"), newRegistry(m, o).Repository("prod/app")
					d := pushImage(t, other, "latest", "x")
					pushImage(t, other, "more", "x")
					refused, _, pushed := s.interleave(func() error { return remove(repo, d) }, func() error { pushImage(t, other, "v1", "x"); return nil })
					if !pushed {
						check(t, refused)
						break
					}
					if refused != nil {
						wantImmutable(t, refused)
					}
					if now, ok := other.TagTarget(ctx, "v1"); !ok || now != d {
						t.Fatalf("step %d: the tag is gone; the deletion returned %v", at, refused)
					}
					if _, err := m.Stat(ctx, layout.TagPushed("prod/app", "v1")); err != nil {
						t.Errorf("step %d: the record of the push: %v", at, err)
					}
					wantImages(t, fmt.Sprint("step ", at), newRegistry(m, o).Repository("prod/app"))
				}
			})
		}
	}
}
