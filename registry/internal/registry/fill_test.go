package registry

import (
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage/memory"
)

// A manifest is cached before what it refers to, and its tag moves though a rule for
// pushes says that it may not.
func TestCacheManifest(t *testing.T) {
	ctx := t.Context()
	names, err := pattern.ParseNames([]string{"**"})
	check(t, err)
	all, err := pattern.ParseTags([]string{".*"})
	check(t, err)
	reg := newRegistry(memory.New(), Options{Immutable: []TagRule{{Repositories: names, Tags: all}}})
	cache := reg.Cached("hub/a")
	for _, layer := range []string{"x", "y"} {
		body := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","config":{"mediaType":"a/b","digest":"` + string(sum(layer)) + `","size":1},"layers":[]}`)
		want := oci.SHA256.FromBytes(body)
		_, err := cache.CacheManifest(ctx, want, body, "v1")
		check(t, err)
		m, err := reg.Repository("hub/a").Manifest(ctx, tagged("v1"))
		check(t, err)
		if m.Digest != want {
			t.Errorf("got %s, want %s", m.Digest, want)
		}
	}
}
