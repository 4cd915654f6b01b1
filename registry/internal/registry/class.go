package registry

import (
	"fmt"
	"slices"

	"slipway/registry/internal/oci"
)

// classOf is the class of a manifest by the type of its config, as distribution
// has them; "" for all others.
func classOf(m *oci.Manifest) string {
	switch m.Config.MediaType {
	case "application/vnd.docker.container.image.v1+json", "application/vnd.oci.image.config.v1+json":
		return "image"
	case "application/vnd.docker.plugin.v1+json":
		return "plugin"
	}
	return ""
}

// checkClass is nil if manifests of that class may be pushed.
func (v *Validation) checkClass(m *oci.Manifest) error {
	if len(v.Classes) == 0 || m.Config == nil {
		return nil
	}
	class := classOf(m)
	if class == "" {
		return oci.NewError(oci.CodeDenied, fmt.Sprintf("unknown manifest class for %.200s", m.Config.MediaType))
	}
	if !slices.Contains(v.Classes, class) {
		return oci.NewError(oci.CodeDenied, "registry does not allow "+class+" manifest")
	}
	return nil
}
