package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A tag that a dead process has in its hands goes with its manifest, and is not
// back later; and so does one that was put back meanwhile.
func TestDeletionTakesTagsOfTheDead(t *testing.T) {
	for kind, open := range drivers {
		for _, sole := range []bool{false, true} {
			for _, back := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s: sole %v, back %v", kind, sole, back), func(t *testing.T) {
					r := New(Options{Driver: open(t), DeleteEnabled: true})
					if sole {
						leave, err := r.Serve(t.Context())
						check(t, err)
						defer leave()
					}
					repo := r.Repository("a")
					pushImage(t, repo, "kept", "z")
					d, other := pushImage(t, repo, "one", "x"), pushImage(t, repo, "other", "y")
					pushImage(t, repo, "two.tmp", "x")
					for _, tag := range []string{"one", "two.tmp"} {
						check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", tagged(tag).Tag), layout.ExpiringTag("a", tagged(tag).Tag)))
					}
					_, err := repo.DeleteManifest(t.Context(), other)
					check(t, err)
					if back {
						r.Recover(t.Context())
						wantWholeTags(t, repo, []string{"kept", "one", "two.tmp"})
					}
					removed, err := repo.DeleteManifest(t.Context(), d)
					check(t, err)
					if len(removed) != 2 {
						t.Errorf("removed %q", removed)
					}
					r.Recover(t.Context())
					wantWholeTags(t, repo, []string{"kept"})
				})
			}
		}
	}
}

// So does a tag that is deleted itself.
func TestDeletedTagOfTheDead(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "kept", "z")
		pushImage(t, repo, "one", "x")
		check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTag("a", "one")))
		check(t, repo.DeleteTag(t.Context(), "one"))
		wantCode(t, repo.DeleteTag(t.Context(), "one"), oci.CodeManifestUnknown)
		r.Recover(t.Context())
		wantWholeTags(t, repo, []string{"kept"})
	})
}

// While somebody has the link of a tag in his hands, who may put it back, the tag
// is there.
func TestHeldTagIsThere(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "kept", "z")
		d := pushImage(t, repo, "one", "x")
		check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTag("a", "one")))
		for _, reader := range []*Registry{r, New(Options{Driver: r.driver}), New(Options{Driver: r.driver, ReadOnly: true})} {
			tags, _, err := reader.Repository("a").Tags(t.Context(), -1, "")
			if err != nil || !slices.Equal(tags, []string{"kept", "one"}) {
				t.Errorf("tags = %q, %v", tags, err)
			}
			m, err := reader.Repository("a").Manifest(t.Context(), tagged("one"))
			if err != nil || m.Digest != d {
				t.Errorf("got %+v, %v", m, err)
			}
		}
		check(t, repo.DeleteTag(t.Context(), "one"))
		wantWholeTags(t, repo, []string{"kept"})
	})
}

// stepwise is a storage on which something happens after each removal; those of one
// stage come in any order.
type stepwise struct {
	driver.Driver
	back    bool // they come from the last to the first
	between func()
}

func (s *stepwise) Commit(ctx context.Context, stages ...driver.Stage) error {
	for _, stage := range stages {
		if !stage[0].Remove {
			if err := s.Driver.Commit(ctx, stage); err != nil {
				return err
			}
			continue
		}
		if stage = slices.Clone(stage); s.back {
			slices.Reverse(stage)
		}
		for i := range stage {
			if err := s.Driver.Commit(ctx, stage[i:i+1]); err != nil {
				return err
			}
			s.between()
		}
	}
	return nil
}

// onStepwise runs the test on each driver, with the changes of a stage in either
// order.
func onStepwise(t *testing.T, what string, test func(t *testing.T, store *stepwise, r *Registry)) {
	for kind, open := range drivers {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s: %s, back %v", kind, what, back), func(t *testing.T) {
				store := &stepwise{Driver: open(t), back: back}
				test(t, store, New(Options{Driver: store, DeleteEnabled: true, PromiseAge: time.Hour}))
			})
		}
	}
}

// A tag that is deleted is not put back in that moment, by this process or
// another one.
func TestRecoveryDuringADeletion(t *testing.T) {
	for what, remove := range map[string]func(ctx context.Context, repo Repository) error{
		"a tag":        func(ctx context.Context, repo Repository) error { return repo.DeleteTag(ctx, "one") },
		"a repository": func(ctx context.Context, repo Repository) error { return repo.Delete(ctx) },
	} {
		onStepwise(t, what, func(t *testing.T, store *stepwise, r *Registry) {
			repo := r.Repository("a")
			pushImage(t, repo, "one", "x")
			check(t, store.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTag("a", "one")))
			pushImage(t, repo, "one", "y")
			var group sync.WaitGroup
			store.between = func() {
				New(Options{Driver: store.Driver}).Recover(t.Context())
				done := make(chan struct{})
				group.Go(func() {
					r.Recover(context.Background())
					close(done)
				})
				select {
				case <-done:
				case <-time.After(20 * time.Millisecond):
				}
			}
			check(t, remove(t.Context(), repo))
			group.Wait()
			_, err := repo.Manifest(t.Context(), tagged("one"))
			wantCode(t, err, oci.CodeManifestUnknown)
			if _, err := store.Stat(t.Context(), layout.TagCurrent("a", "one")); !absent(err) {
				t.Errorf("the link: %v", err)
			}
		})
	}
}

// Nor is a manifest of a repository that is deleted, which a collector of garbage
// moves or somebody looks for in that moment.
func TestCollectionDuringADeletion(t *testing.T) {
	for what, move := range map[string]func(ctx context.Context, d driver.Driver, m oci.Digest){
		"a collector": func(ctx context.Context, d driver.Driver, m oci.Digest) {
			link := layout.RevisionLink("a", m)
			_ = d.SetAside(ctx, link, layout.Aside(link))
		},
		"a reader": func(ctx context.Context, d driver.Driver, m oci.Digest) {
			if _, err := d.Stat(ctx, layout.Manifests("a")); absent(err) { // the moment that matters
				other := New(Options{Driver: d, PromiseAge: time.Hour})
				_, _ = other.Repository("a").Manifest(ctx, oci.Reference{Digest: m})
			}
		},
	} {
		onStepwise(t, what, func(t *testing.T, store *stepwise, r *Registry) {
			repo := r.Repository("a")
			d := pushImage(t, repo, "one", "x")
			putAside(t, store.Driver, layout.RevisionLink("a", d))
			if what == "a collector" {
				pushImage(t, repo, "one", "x")
			}
			store.between = func() { move(t.Context(), store.Driver, d) }
			check(t, repo.Delete(t.Context()))
			_, err := New(Options{Driver: store.Driver}).Repository("a").Manifest(t.Context(), oci.Reference{Digest: d})
			wantCode(t, err, oci.CodeManifestUnknown)
		})
	}
}
