// Package validation checks what a pushed manifest may be and refer to.
package validation

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"slipway/registry/internal/oci"
)

// Rules describe what a pushed manifest may refer to. The zero value asks for all children of an index.
type Rules struct {
	// Disabled leaves out the checks of URLs and of an index's children. Layers
	// and configs are always checked.
	Disabled bool
	// AllowURLs and DenyURLs judge the URLs of layers that are stored elsewhere. Where
	// neither is set, any http and https URL is accepted.
	AllowURLs, DenyURLs []*regexp.Regexp
	// Platforms says which children of an index must be there.
	Platforms PlatformRule
	// PlatformList holds the platforms that PlatformsListed looks for.
	PlatformList []oci.Platform
	// Classes of manifests that may be pushed ("image", "plugin"); none = all.
	// An index has no class.
	Classes []string
}

// PlatformRule says which children of an index must be there.
type PlatformRule int

// The rules; the zero value asks for every child.
const (
	PlatformsAll PlatformRule = iota
	PlatformsNone
	PlatformsListed // those whose platform is in Rules.PlatformList
)

// classImage is the class of images, and of whatever a token names no class for.
const classImage = "image"

// mediaClass is the class of a manifest by its type and that of its config, as
// distribution has them; "" for all others.
func mediaClass(m *oci.Manifest) string {
	switch m.MediaType + " " + m.Config.MediaType {
	case oci.MediaTypeDockerManifest + " application/vnd.docker.container.image.v1+json", oci.MediaTypeManifest + " application/vnd.oci.image.config.v1+json":
		return classImage
	case oci.MediaTypeDockerManifest + " application/vnd.docker.plugin.v1+json":
		return "plugin"
	}
	return ""
}

// CheckClass is nil if manifests of that class may be pushed with a token for the
// granted classes; nil stands for all of them.
func (v *Rules) CheckClass(m *oci.Manifest, granted []string) error {
	if len(v.Classes) == 0 || m.Config == nil {
		return nil
	}
	class := mediaClass(m)
	if class == "" {
		return oci.Explain(oci.CodeDenied, fmt.Sprintf("unknown manifest class for %.200s", m.Config.MediaType))
	}
	if !slices.Contains(v.Classes, class) {
		return oci.Explain(oci.CodeDenied, "registry does not allow "+class+" manifest")
	}
	allows := func(c string) bool { return c == class || c == "" && class == classImage }
	if granted != nil && !slices.ContainsFunc(granted, allows) {
		return oci.Explain(oci.CodeDenied, "repository not authorized for "+class+" manifest")
	}
	return nil
}

// CheckURLs is nil if a layer may be stored where its URLs say.
func (v *Rules) CheckURLs(d *oci.Descriptor) error {
	if v.Disabled {
		return nil
	}
	for _, u := range d.URLs {
		if !v.allows(u) {
			return oci.Explain(oci.CodeManifestInvalid, fmt.Sprintf("layer %s has a URL that is not allowed here", d.Digest))
		}
	}
	return nil
}

func (v *Rules) allows(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return false
	}
	for _, deny := range v.DenyURLs {
		if deny.MatchString(s) {
			return false
		}
	}
	for _, allow := range v.AllowURLs {
		if allow.MatchString(s) {
			return true
		}
	}
	return len(v.AllowURLs) == 0
}

// NeedsChild reports whether a manifest that an index lists must be there.
func (v *Rules) NeedsChild(d *oci.Descriptor) bool {
	if v.Disabled || v.Platforms == PlatformsNone {
		return false
	}
	if v.Platforms != PlatformsListed {
		return true
	}
	return d.Platform != nil && slices.ContainsFunc(v.PlatformList, func(p oci.Platform) bool {
		return p.OS == d.Platform.OS && p.Architecture == d.Platform.Architecture
	})
}
