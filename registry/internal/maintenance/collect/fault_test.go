package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

// A prefix that cannot be read ends the run before anything is deleted, because what it
// needs is unknown.
func TestUnlistableRepositoryEndsTheRun(t *testing.T) {
	x := onMemory(t)
	x.blob("a", "garbage")
	x.s = &hookedtest.Store{Store: x.s, OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.List && key == layout.Repository("a") {
			return storage.ErrUnavailable
		}
		return nil
	}}
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
	x.put(d.Key("a"), d.Encode(), 0)
	var fails sync.Once
	x.s = &hookedtest.Store{Store: x.s, OnRead: func(_ context.Context, op hookedtest.Op, key string) (err error) {
		if op == hookedtest.Open && key == layout.BlobData(deleted) {
			fails.Do(func() { err = fmt.Errorf("%w: %w", storage.ErrUnavailable, storage.ErrTemporary) })
		}
		return err
	}}
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
