package registry

import (
	"context"
	"errors"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// unrenewed is a store where some things are somebody else's: they can't be renewed.
type unrenewed struct{ storage.Store }

func (s unrenewed) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	if stages[0][0].Renew {
		return storage.ErrDenied
	}
	return s.Store.Apply(ctx, a, stages...)
}

func (s unrenewed) Begin() *storage.Attempt {
	a := s.Store.Begin()
	return storage.NewAttempt(a.Begun(), -1, a.Token(), nil) // finds everything stale
}

// A client may ask for what can't be renewed, but nothing is pushed that relies on it.
func TestPushOfWhatIsNotRenewed(t *testing.T) {
	store := memory.New()
	repo := newRegistry(store, Options{}).Repository("a")
	d := pushImage(t, repo, "v1", "seed")
	m, err := repo.Manifest(t.Context(), oci.Reference{Digest: d})
	if err != nil {
		t.Fatal(err)
	}
	repo = newRegistry(unrenewed{store}, Options{}).Repository("a")
	if _, err := repo.StatManifest(t.Context(), oci.Reference{Digest: d}); err != nil {
		t.Errorf("StatManifest: %v", err)
	}
	if _, err := repo.PutManifest(t.Context(), oci.Reference{Tag: "v2"}, m.MediaType, m.Bytes, nil); !errors.Is(err, storage.ErrDenied) {
		t.Errorf("PutManifest: %v, want %v", err, storage.ErrDenied)
	}
}
