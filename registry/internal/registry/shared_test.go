package registry

import (
	"context"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// sharedMap is a cache that several processes use.
type sharedMap struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (m *sharedMap) Get(_ context.Context, key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.values[key]
	return content, ok
}

func (m *sharedMap) Put(key string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = content
}

// opened counts what is read.
type opened struct {
	both
	keys []string
}

func (s *opened) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	s.keys = append(s.keys, key)
	return s.both.Open(ctx, key, offset, length)
}

// onShared runs the test with two processes on each store there is and one cache; the
// store of the second counts what it reads.
func onShared(t *testing.T, test func(t *testing.T, a, b *Registry, read *opened, shared *sharedMap)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			shared := &sharedMap{values: map[string][]byte{}}
			read := &opened{both: store}
			o := Options{DeleteEnabled: true, Shared: shared}
			test(t, newRegistry(store, o), newRegistry(read, o), read, shared)
		})
	}
}

func TestShared_ManifestIsNotReadAgain(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *Registry, read *opened, _ *sharedMap) {
		d := pushImage(t, a.Repository("r"), "v1", "x")
		m, err := b.Repository("r").Manifest(t.Context(), oci.Reference{Digest: d})
		check(t, err)
		if m.Digest != d || d.Algorithm().FromBytes(m.Bytes) != d || len(read.keys) > 0 {
			t.Errorf("got %s; read from the store: %q", m.Digest, read.keys)
		}
	})
}

// What one process deletes is gone for the other at once, whatever the cache says.
func TestShared_CacheNeverSaysThatSomethingExists(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *Registry, _ *opened, _ *sharedMap) {
		repo, ref := a.Repository("r"), oci.Reference{}
		ref.Digest = pushImage(t, repo, "v1", "x")
		for range 2 { // the second time from memory
			_, err := b.Repository("r").Manifest(t.Context(), ref)
			check(t, err)
		}
		pushBlob(t, a.Repository("other"), "z")
		_, err := b.Repository("other").Manifest(t.Context(), ref)
		wantCode(t, err, oci.CodeManifestUnknown)
		_, err = repo.DeleteManifest(t.Context(), ref.Digest)
		check(t, err)
		_, err = b.Repository("r").Manifest(t.Context(), ref)
		wantCode(t, err, oci.CodeManifestUnknown)
		check(t, repo.DeleteBlob(t.Context(), sum("layer x")))
		_, err = b.Repository("r").StatBlob(t.Context(), sum("layer x"))
		wantCode(t, err, oci.CodeBlobUnknown)
		index := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{{MediaType: oci.MediaTypeManifest, Digest: ref.Digest}}}
		_, err = b.Repository("r").PutManifest(t.Context(), tagged("index"), oci.MediaTypeIndex, index.bytes(), nil)
		wantCode(t, err, oci.CodeManifestBlobUnknown)
	})
}

// Bytes that are gone from the store are missed, though the cache has them.
func TestShared_BytesAreLookedFor(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *Registry, _ *opened, _ *sharedMap) {
		d := pushImage(t, a.Repository("r"), "v1", "x")
		removeObject(t, b.store, layout.BlobData(d))
		_, err := b.Repository("r").Manifest(t.Context(), tagged("v1"))
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}

func TestShared_WrongContentIsNotBelieved(t *testing.T) {
	onShared(t, func(t *testing.T, a, b *Registry, read *opened, shared *sharedMap) {
		d := pushImage(t, a.Repository("r"), "v1", "x")
		for key := range shared.values {
			shared.Put(key, []byte("../../etc\n\x00\nr\n"))
		}
		m, err := b.Repository("r").Manifest(t.Context(), oci.Reference{Digest: d})
		check(t, err)
		if d.Algorithm().FromBytes(m.Bytes) != d || len(read.keys) == 0 {
			t.Errorf("got %q; read from the store: %q", m.Bytes, read.keys)
		}
	})
}

func TestLooked(t *testing.T) {
	onShared(t, func(t *testing.T, a, _ *Registry, _ *opened, _ *sharedMap) {
		var hits, misses int
		b := again(a, Options{Now: time.Now, Looked: func(hit bool) {
			if hit {
				hits++
			} else {
				misses++
			}
		}})
		pushImage(t, a.Repository("r"), "v1", "x")
		for range 3 {
			_, err := b.Repository("r").Manifest(t.Context(), tagged("v1"))
			check(t, err)
		}
		if hits != 2 || misses != 1 {
			t.Errorf("%d hits and %d misses, want 2 and 1", hits, misses)
		}
	})
}
