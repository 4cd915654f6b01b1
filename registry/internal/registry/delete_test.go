package registry

import (
	"context"
	"errors"
	"slices"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

func TestDeleteRepository(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo, below := r.Repository("a"), r.Repository("a/b")
		d := pushImage(t, repo, "v1", "one")
		pushImage(t, repo, "v2", "two")
		pushImage(t, below, "v1", "three")
		check(t, repo.Delete(t.Context()))
		names, _, err := r.Catalog(t.Context(), 10, "")
		check(t, err)
		if !slices.Equal(names, []string{"a/b"}) {
			t.Errorf("catalog = %q", names)
		}
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
		_, _, err = repo.Tags(t.Context(), -1, "")
		wantCode(t, err, oci.CodeNameUnknown)
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
	d := drivers["memory"](t)
	names, err := pattern.ParseNames([]string{"release"})
	check(t, err)
	tags, err := pattern.ParseTags([]string{"v.*"})
	check(t, err)
	r := New(Options{Driver: d, DeleteEnabled: true, Immutable: []TagRule{{Repositories: names, Tags: tags}}})
	pushImage(t, r.Repository("release"), "v1", "one")
	if err := r.Repository("release").Delete(context.Background()); !errors.Is(err, ErrImmutable) {
		t.Errorf("got %v", err)
	}
	wantCode(t, New(Options{Driver: d}).Repository("release").Delete(t.Context()), oci.CodeUnsupported)
	_, err = r.Repository("release").Manifest(t.Context(), tagged("v1"))
	check(t, err)
}

// powerless is a storage that loses power: what was discarded is there again.
type powerless struct{ driver.Driver }

func (powerless) Discard(context.Context, string) error { return nil }

// What others have aside of a repository that was deleted does not come back with
// the power.
func TestDeleteRepositoryIsDurable(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			r := New(Options{Driver: powerless{store}, DeleteEnabled: true})
			repo := r.Repository("a")
			d := pushImage(t, repo, "kept", "one")
			aside := pushImage(t, repo, "held", "two")
			link := layout.RevisionLink("a", aside)
			check(t, store.SetAside(t.Context(), link, layout.Aside(link)))
			check(t, store.SetAside(t.Context(), layout.TagCurrent("a", "held"), layout.ExpiringTag("a", "held")))
			check(t, repo.Delete(t.Context()))
			r.Recover(t.Context())
			for _, d := range []oci.Digest{d, aside} {
				_, err := repo.Manifest(t.Context(), oci.Reference{Digest: d})
				wantCode(t, err, oci.CodeManifestUnknown)
			}
			_, err := repo.Manifest(t.Context(), tagged("held"))
			wantCode(t, err, oci.CodeManifestUnknown)
			if names, _, err := r.Catalog(t.Context(), 10, ""); err != nil || len(names) > 0 {
				t.Errorf("catalog = %q, %v", names, err)
			}
		})
	}
}
