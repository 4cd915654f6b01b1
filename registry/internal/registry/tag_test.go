package registry

import (
	"context"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/hookedtest"
)

// Clients ask for a tag before they push it. That it is not there takes a look at its
// link and one at the repository.
func TestLooksForAMissingTag(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			looks := 0
			store := &hookedtest.Store{Store: open(t), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
				if op != hookedtest.Stat || !strings.HasSuffix(key, "/") { // a prefix is looked at to save a listing
					looks++
				}
				return nil
			}}
			repo := newRegistry(store, Options{}).Repository("a")
			pushImage(t, repo, "kept", "x")
			looks = 0
			_, err := repo.Manifest(t.Context(), tagged("none"))
			wantCode(t, err, oci.CodeManifestUnknown)
			if looks > 2 {
				t.Errorf("%d looks", looks)
			}
		})
	}
}

// A tag whose deletion was interrupted before its history was gone cannot be pulled. Object
// stores list it until the next collection.
func TestHalfDeletedTag(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		want := []string{"kept"}
		if r.store.Remote {
			want = []string{"half", "kept"}
		}
		ctx, repo := t.Context(), r.Repository("a")
		for range 2 {
			pushImage(t, repo, "half", "x")
			pushImage(t, repo, "kept", "x")
			settle(t)
			_, _, err := repo.Tags(ctx, -1, "")
			check(t, err)
			removeObject(t, r.store, layout.TagCurrent("a", "half"))
			_, err = repo.Manifest(ctx, tagged("half"))
			wantCode(t, err, oci.CodeManifestUnknown)
			tags, _, err := repo.Tags(ctx, -1, "")
			check(t, err)
			if !slices.Equal(tags, want) {
				t.Errorf("it lists %q, want %q", tags, want)
			}
		}
	})
}
