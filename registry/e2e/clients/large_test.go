package clients

import (
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// An image of as many layers as nobody should have.
func TestManyLayers(t *testing.T) {
	img := harness.NewImage(t, 61, 200, 5_000)
	layout := img.Layout(t, "v1")
	for name, f := range harness.Fronts(t) {
		t.Run(name, func(t *testing.T) {
			repo := "layers/" + strings.ToLower(name)
			f.Crane(t, "push", layout, f.Addr+"/"+repo+":v1")
			f.Crane(t, "validate", "--remote", f.Addr+"/"+repo+":v1")
			img.Pulls(t, f.Backend, repo, "v1")
		})
	}
}
