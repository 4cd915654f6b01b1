package ocilayout

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage/memory"
)

// docker pushes an image of Docker's media types.
func docker(t *testing.T, repo registry.Repository, layer string, tags ...oci.Tag) oci.Descriptor {
	t.Helper()
	config, l := registrytest.Push(t, repo, "config of "+layer), registrytest.Push(t, repo, layer)
	config.MediaType, l.MediaType = "application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"
	return put(t, repo, tags, map[string]any{"mediaType": oci.MediaTypeDockerManifest, "config": config, "layers": []any{l}})
}

// What has Docker's media types can be found by its name in a layout, and comes
// back as it was.
func TestDockerTypes(t *testing.T) {
	rules := newRegistry(memory.New())
	from, to := rules.Repository("a"), rules.Repository("b")
	one := docker(t, from, "one", "v1")
	one.Platform = &oci.Platform{Architecture: "arm", OS: "linux"}
	put(t, from, []oci.Tag{"list"}, map[string]any{"mediaType": oci.MediaTypeDockerList, "manifests": []any{
		map[string]any{"mediaType": one.MediaType, "digest": one.Digest, "size": one.Size, "platform": map[string]string{"architecture": "arm", "os": "linux", "variant": "v7"}},
	}})
	path := filepath.Join(t.TempDir(), "dir")
	_, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, path)
	check(t, err)
	s, err := open(path, maxIndex)
	check(t, err)
	defer s.Close()
	content, err := s.read(indexFile, maxIndex)
	check(t, err)
	var x index
	check(t, json.Unmarshal(content, &x))
	byName := map[string]oci.Digest{}
	for _, d := range x.Manifests {
		if d.MediaType == oci.MediaTypeIndex {
			byName[d.Annotations[refName]] = d.Digest
		}
	}
	for name, variant := range map[string]string{"v1": "", "list": "v7"} {
		body, err := s.Manifest(t.Context(), byName[name])
		check(t, err)
		var w struct {
			Manifests []struct {
				Digest   oci.Digest
				Platform struct{ Variant string }
			}
		}
		check(t, json.Unmarshal(body, &w))
		if len(w.Manifests) != 1 || w.Manifests[0].Digest != one.Digest || w.Manifests[0].Platform.Variant != variant {
			t.Errorf("the index named %s is %s", name, body)
		}
	}
	_, err = Import(t.Context(), path, to, ImportOptions{})
	check(t, err)
	want, got := contents(t, from), contents(t, to)
	if len(got) != 2 || got["v1"] != want["v1"] || got["list"] != want["list"] {
		t.Errorf("imported %v, want %v", got, want)
	}
}

// A layout of one image has one entry, which is read without a name.
func TestOneDockerImage(t *testing.T) {
	rules := newRegistry(memory.New())
	docker(t, rules.Repository("a"), "one", "v1")
	path := filepath.Join(t.TempDir(), "dir")
	_, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, path)
	check(t, err)
	s, err := open(path, maxIndex)
	check(t, err)
	defer s.Close()
	entries, err := s.entries()
	check(t, err)
	if len(entries) != 1 {
		t.Errorf("the layout has the entries %v", entries)
	}
}
