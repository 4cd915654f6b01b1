package collect

import (
	"context"
	"errors"
	"iter"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// A prefix that cannot be read ends the run before anything is deleted, because what it
// needs is unknown.
func TestUnlistableRepositoryEndsTheRun(t *testing.T) {
	x := onMemory(t)
	x.blob("a", "garbage")
	x.s = unlistable{x.s}
	if _, err := x.tryRun(Options{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	x.want("bytes", layout.BlobData(oci.SHA256.FromBytes([]byte("garbage"))), true)
}

type unlistable struct{ storage.Store }

func (s unlistable) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if prefix == layout.Repository("a") {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, storage.ErrUnavailable) }
	}
	return s.Store.List(ctx, prefix, o)
}
