package api

import (
	"strings"

	"slipway/registry/internal/oci"
)

// accepted is what a client said it can read. Weights (q=…) are passed over:
// a tag names one manifest, so there is nothing to choose between.
type accepted []string

// all reports whether everything is welcome: no Accept header, or one with a
// wildcard.
func (a accepted) all() bool {
	return len(a) == 0 || a.find(func(t string) bool { return t == "*/*" || t == "application/*" })
}

// has reports whether the type is named.
func (a accepted) has(mediaType string) bool {
	return a.find(func(t string) bool { return strings.EqualFold(t, mediaType) })
}

func (a accepted) find(is func(string) bool) bool {
	for _, line := range a {
		for line != "" {
			var element string
			element, line, _ = strings.Cut(line, ",")
			element, _, _ = strings.Cut(element, ";")
			if is(strings.TrimSpace(element)) {
				return true
			}
		}
	}
	return false
}

// verdict is how a manifest is answered to a client.
type verdict int

const (
	serve verdict = iota
	serveChild
	refuseOCI     // the client cannot read OCI manifests
	refuseSchema2 // the client can read neither a list nor what the list names
)

// judge decides how content of the type is answered. It does what CNCF
// distribution 3 does for a client that names its types, so that old Docker
// clients, which know no lists, keep getting the linux/amd64 image of a tag.
// Everything is served as it is to a client that accepts anything.
func (a accepted) judge(mediaType string, byTag bool) verdict {
	switch {
	case a.has(mediaType) || a.all():
		return serve
	case mediaType == oci.MediaTypeManifest:
		return refuseOCI
	case mediaType == oci.MediaTypeDockerList && byTag && a.has(oci.MediaTypeDockerManifest):
		return serveChild
	case mediaType == oci.MediaTypeDockerList && byTag:
		return refuseSchema2
	default:
		return serve
	}
}
