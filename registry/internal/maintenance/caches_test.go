package maintenance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// countedCollections counts the collections of a store.
type countedCollections struct {
	storage.Store
	begun atomic.Int32
}

func (c *countedCollections) Collect(ctx context.Context) (storage.Collection, error) {
	c.begun.Add(1)
	return c.Store.Collect(ctx)
}

// The bytes of an evicted image are freed, by a second collection if the first one keeps them
// as too young.
func TestEviction_FreesBytes(t *testing.T) {
	for name, test := range map[string]struct {
		unused      time.Duration
		collections int32
	}{"young": {5 * time.Second, 2}, "old": {time.Hour, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { evictionFrees(t, test.unused, test.collections) })
		})
	}
}

func evictionFrees(t *testing.T, unused time.Duration, collections int32) {
	store := &countedCollections{Store: memory.New()}
	unlock, err := store.Lock(t.Context(), storage.LockServers, true)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	layer := []byte("layer")
	d := oci.SHA256.FromBytes(layer)
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q,"size":5},"layers":[]}`, oci.MediaTypeManifest, d)
	m := oci.SHA256.FromBytes(manifest)
	if err := store.Apply(t.Context(), nil, storage.Stage{
		{Key: layout.BlobData(d), Content: layer},
		{Key: layout.LayerLink("hub/app", d), Content: layout.Link(d)},
		{Key: layout.BlobData(m), Content: manifest},
		{Key: layout.RevisionLink("hub/app", m), Content: layout.Link(m)},
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(unused)
	cfg := config.Default()
	cfg.Storage.Maintenance.UploadPurging.Enabled = false
	cfg.Storage.Maintenance.GC.Age = time.Second
	cfg.Proxy.MaxSize = 1
	o := newOptions(t, &cfg, store)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	Start(ctx, &group, o)
	stored := func(key string) bool {
		_, err := store.Stat(t.Context(), key)
		return err == nil
	}
	time.Sleep(10 * time.Second)
	if stored(layout.RevisionLink("hub/app", m)) || stored(layout.BlobData(d)) != (collections > 1) {
		t.Errorf("after 10 s: the manifest is stored: %v, its layer: %v", stored(layout.RevisionLink("hub/app", m)), stored(layout.BlobData(d)))
	}
	time.Sleep(time.Minute)
	if stored(layout.BlobData(d)) {
		t.Error("the layer was never freed")
	}
	if n := store.begun.Load(); n != collections {
		t.Errorf("%d collections, want %d", n, collections)
	}
}
