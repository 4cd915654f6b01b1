// Package registrytest pushes content to repositories in tests, without a server.
package registrytest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Push pushes a blob. The result has the type of a blob that nobody has described.
func Push(t testing.TB, repo registry.Repository, content string) oci.Descriptor {
	t.Helper()
	u, err := repo.StartUpload(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close() //nolint:errcheck // Commit has ended it
	if _, err := u.Append(t.Context(), strings.NewReader(content), -1); err != nil {
		t.Fatal(err)
	}
	d, err := u.Commit(t.Context(), oci.SHA256.FromBytes([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// PushImage pushes an image with the content of its config and its layers. A tag of "" is none.
func PushImage(t testing.TB, repo registry.Repository, tag oci.Tag, config string, layers ...string) oci.Descriptor {
	t.Helper()
	described := Push(t, repo, config)
	described.MediaType = "application/vnd.oci.image.config.v1+json"
	list := []oci.Descriptor{}
	for _, layer := range layers {
		d := Push(t, repo, layer)
		d.MediaType = "application/vnd.oci.image.layer.v1.tar"
		list = append(list, d)
	}
	return PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": described, "layers": list}, tag)
}

// PutManifest pushes a manifest, which may be its text or anything that becomes JSON. A tag of
// "" is none.
func PutManifest(t testing.TB, repo registry.Repository, manifest any, tags ...oci.Tag) oci.Descriptor {
	t.Helper()
	var body []byte
	if text, ok := manifest.(string); ok {
		body = []byte(text)
	} else {
		var err error
		if body, err = json.Marshal(manifest); err != nil {
			t.Fatal(err)
		}
	}
	tags = slices.DeleteFunc(tags, func(tag oci.Tag) bool { return tag == "" })
	result, err := repo.PutManifest(t.Context(), oci.Reference{Digest: oci.SHA256.FromBytes(body)}, "", body, tags)
	if err != nil {
		t.Fatal(err)
	}
	return result.Descriptor
}
