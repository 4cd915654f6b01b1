package tree

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// Roots hold what they need and what refers to it; a component also has their subjects. Manifests that can't be read are
// left out or end the reading.
func TestGraph(t *testing.T) {
	objects := map[string]string{}
	add := func(body string) oci.Digest {
		objects[layout.BlobData(sum(body))] = body
		objects[layout.RevisionLink("a", sum(body))] = string(sum(body))
		return sum(body)
	}
	layer := sum("layer")
	image := add(`{"schemaVersion":2,"layers":[{"digest":"` + string(layer) + `"}]}`)
	index := add(`{"schemaVersion":2,"manifests":[{"digest":"` + string(image) + `"}]}`)
	signature := add(`{"schemaVersion":2,"subject":{"digest":"` + string(image) + `"},"layers":[]}`)
	other := add(`{"schemaVersion":2,"layers":[]}`)
	s := store(t, objects)
	g, err := ReadGraph(t.Context(), s, "a", nil)
	if err != nil || len(g.Nodes) != 4 || g.Nodes[image].Size == 0 || g.Nodes[image].Digest != image {
		t.Fatalf("%+v, %v", g, err)
	}
	for root, want := range map[oci.Digest][2][]oci.Digest{
		index:     {{index, image, layer, signature}, {index, image, layer, signature}},
		image:     {{image, layer, signature}, {image, layer, signature}},
		signature: {{signature}, {signature, image, layer}},
		other:     {{other}, {other}},
		layer:     {{layer}, {layer}},
	} {
		for i, got := range []map[oci.Digest]bool{g.Closure([]oci.Digest{root}), g.Component([]oci.Digest{root})} {
			slices.Sort(want[i])
			if all := slices.Sorted(maps.Keys(got)); !slices.Equal(all, want[i]) {
				t.Errorf("%s holds %q, want %q", root, all, want[i])
			}
		}
	}

	objects[layout.BlobData(other)] = "damaged"
	objects[layout.RevisionLink("a", sum("nothing"))] = string(sum("nothing"))
	objects[layout.RevisionLink("a", sum("elsewhere"))] = string(image)
	s = store(t, objects)
	if _, err := ReadGraph(t.Context(), s, "a", nil); !Unreadable(err) {
		t.Errorf("got %v", err)
	}
	bad := 0
	g, err = ReadGraph(t.Context(), s, "a", func(_ Link, err error) error {
		if bad++; !Unreadable(err) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if err != nil || len(g.Nodes) != 3 || bad != 3 {
		t.Errorf("%d nodes, %d bad, %v", len(g.Nodes), bad, err)
	}
	failed := errors.New("failed")
	if _, err := ReadGraph(t.Context(), s, "a", func(Link, error) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
