package registry

import (
	"slices"

	"slipway/registry/internal/oci"
)

// classes of manifests by the type of their config, as distribution has them.
var classes = map[string]string{
	"application/vnd.docker.container.image.v1+json": "image",
	"application/vnd.oci.image.config.v1+json":       "image",
	"application/vnd.docker.plugin.v1+json":          "plugin",
}

// checkClass is nil if manifests of that class may be pushed.
func (v *Validation) checkClass(m *oci.Manifest) error {
	if len(v.Classes) == 0 || m.Config == nil {
		return nil
	}
	class, known := classes[m.Config.MediaType]
	if !known {
		return oci.NewError(oci.CodeDenied, "unknown manifest class for "+m.Config.MediaType)
	}
	if !slices.Contains(v.Classes, class) {
		return oci.NewError(oci.CodeDenied, "registry does not allow "+class+" manifest")
	}
	return nil
}
