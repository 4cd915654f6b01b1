package registry

import (
	"testing"

	"slipway/registry/internal/oci"
)

// A deletion by one process takes effect in another at once, even if that one has cached the manifest.
func TestManifest_CacheNeverDecidesThatSomethingExists(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			a, b := newRegistry(store, Options{DeleteEnabled: true}), newRegistry(store, Options{DeleteEnabled: true})
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
}

// Lookups in memory are counted, with whether they hit.
func TestManifest_CountsLookups(t *testing.T) {
	var hits, misses int
	store := stores["memory"](t)
	pushImage(t, newRegistry(store, Options{}).Repository("r"), "v1", "x")
	r := newRegistry(store, Options{Looked: func(hit bool) {
		if hit {
			hits++
		} else {
			misses++
		}
	}})
	for range 3 {
		_, err := r.Repository("r").Manifest(t.Context(), tagged("v1"))
		check(t, err)
	}
	if hits != 2 || misses != 1 {
		t.Errorf("%d hits and %d misses, want 2 and 1", hits, misses)
	}
}
