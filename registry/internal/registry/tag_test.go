package registry

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// looking is a store that counts what is looked at.
type looking struct {
	both
	looks int
}

func (l *looking) Stat(ctx context.Context, path string) (storage.Info, error) {
	if !strings.HasSuffix(path, "/") { // a prefix is looked at to save a listing
		l.looks++
	}
	return l.both.Stat(ctx, path)
}

func (l *looking) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	l.looks++
	return l.both.Open(ctx, key, offset, length)
}

func (l *looking) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	l.looks++
	return l.both.List(ctx, prefix, o)
}

// Clients ask for a tag before they push it. That it is not there takes a look at its
// link and one at the repository.
func TestLooksForAMissingTag(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := &looking{both: open(t)}
			repo := newRegistry(store, Options{}).Repository("a")
			pushImage(t, repo, "kept", "x")
			store.looks = 0
			_, err := repo.Manifest(t.Context(), tagged("none"))
			wantCode(t, err, oci.CodeManifestUnknown)
			if store.looks > 2 {
				t.Errorf("%d looks", store.looks)
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
