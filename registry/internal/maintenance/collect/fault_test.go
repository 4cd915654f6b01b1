package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

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

// What can be restored stays if its manifest can't be read this time.
func TestUnreadableDeletedManifestSkipsTheRepository(t *testing.T) {
	x := onMemory(t)
	x.serve()
	x.image("a", "v1", "kept")
	deleted, blobs := x.image("a", "", "deleted")
	x.remove(layout.RevisionLink("a", deleted))
	now := time.Now()
	until := now.Add(time.Hour)
	d := layout.Deletion{ID: layout.DeletionID(now, until), At: now, Until: until, Manifests: []oci.Digest{deleted}}
	x.put(layout.DeletionPart("a", d.ID, 0), d.Encode(), 0)
	x.s = unreadableOnce{x.s, layout.BlobData(deleted), &sync.Once{}}
	for _, failed := range []bool{true, false} {
		report, err := x.tryRun(Options{DeleteUntagged: true})
		if errors.Is(err, ErrIncomplete) != failed || !failed && err != nil {
			t.Errorf("after a failed read %v: %v, %+v", failed, err, report.Problems)
		}
		for _, b := range append(blobs, deleted) {
			x.want("bytes that can be restored", layout.BlobData(b), true)
		}
	}
}

// unreadableOnce fails to open an object once.
type unreadableOnce struct {
	storage.Store
	key    string
	failed *sync.Once
}

func (s unreadableOnce) Open(ctx context.Context, key string, offset, length int64) (o *storage.Object, err error) {
	if key == s.key {
		s.failed.Do(func() { err = fmt.Errorf("%w: %w", storage.ErrUnavailable, storage.ErrTemporary) })
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, key, offset, length)
}

type unlistable struct{ storage.Store }

func (s unlistable) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if prefix == layout.Repository("a") {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, storage.ErrUnavailable) }
	}
	return s.Store.List(ctx, prefix, o)
}
