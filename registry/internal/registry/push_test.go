package registry

import (
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

// A wrong size is refused in a new manifest. One that the repository holds, such as one of a
// volume that distribution wrote, can be tagged and restored.
func TestPutManifest_WrongSizeOfStoredManifest(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		r.opts.KeepDeleted = time.Hour
		ctx, repo := t.Context(), r.Repository("a")
		layer, config, child := simpleImage(t, repo, "x"), simpleImage(t, repo, "x"), simpleImage(t, repo, "x")
		layer.Layers[0].Size++
		config.Config.Size++
		_, err := repo.PutManifest(ctx, tagged("child"), "", child.bytes(), nil)
		check(t, err)
		index := image{SchemaVersion: 2, MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{{MediaType: child.MediaType, Digest: sum(string(child.bytes())), Size: 1}}}
		for name, m := range map[string]image{"layer": layer, "config": config, "index": index} {
			body := m.bytes()
			d := sum(string(body))
			_, err := repo.PutManifest(ctx, tagged("new"), "", body, nil)
			want := oci.CodeManifestBlobUnknown // or the blob is damaged
			if name == "index" {
				want = oci.CodeManifestInvalid
			}
			wantCode(t, err, want)
			_, err = r.Cached("a").CacheManifest(ctx, d, body, "") // as if another program had stored it
			check(t, err)
			if _, err := repo.PutManifest(ctx, tagged("release"), "", body, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, err = r.Repository("b").PutManifest(ctx, tagged("new"), "", body, nil)
			if err == nil {
				t.Errorf("%s: accepted in another repository", name)
			}
			_, err = repo.DeleteManifest(ctx, d)
			check(t, err)
			if _, err := repo.Restore(ctx, Selection{Tag: "release"}); err != nil {
				t.Errorf("%s: restoring: %v", name, err)
			}
		}
		layer.Layers = append(layer.Layers, oci.Descriptor{Digest: sum("absent"), Size: 1})
		_, err = r.Cached("a").CacheManifest(ctx, sum(string(layer.bytes())), layer.bytes(), "")
		check(t, err)
		_, err = repo.PutManifest(ctx, tagged("new"), "", layer.bytes(), nil)
		wantCode(t, err, oci.CodeManifestBlobUnknown)
	})
}
