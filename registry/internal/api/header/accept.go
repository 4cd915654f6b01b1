// Package header parses the headers by which a client asks for content (media types,
// preconditions and ranges), and the Content-Range of chunks.
package header

import (
	"strings"

	"slipway/registry/internal/oci"
)

// Accepted is the Accept header, one element per line. Weights (q=…) are ignored: a tag names one
// manifest, so there is nothing to choose between.
type Accepted []string

// all reports whether everything is welcome: no Accept header, or one with a
// wildcard.
func (a Accepted) all() bool {
	return len(a) == 0 || a.find(func(t string) bool { return t == "*/*" || t == "application/*" })
}

// has reports whether the type is named.
func (a Accepted) has(mediaType string) bool {
	return a.find(func(t string) bool { return strings.EqualFold(t, mediaType) })
}

func (a Accepted) find(is func(string) bool) bool {
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

// Verdict is the decision of [Accepted.Judge] about a manifest.
type Verdict int

// What a client gets.
const (
	Serve      Verdict = iota
	ServeChild         // the linux/amd64 image of a list, if ReadsChild
	RefuseOCI          // the client cannot read OCI manifests
)

// Judge decides how content of the media type is served. It does what CNCF distribution 3 does for
// a client that names its types, so that old Docker clients, which know no lists, keep getting the
// linux/amd64 image of a tag. A client that accepts anything gets the content unchanged.
func (a Accepted) Judge(mediaType string, byTag bool) Verdict {
	switch {
	case a.has(mediaType) || a.all():
		return Serve
	case mediaType == oci.MediaTypeManifest:
		return RefuseOCI
	case mediaType == oci.MediaTypeDockerList && byTag:
		return ServeChild
	default:
		return Serve
	}
}

// ReadsChild reports whether an image of this media type is served in place of a list: only Docker's must be named.
func (a Accepted) ReadsChild(mediaType string) bool {
	return mediaType != oci.MediaTypeDockerManifest || a.has(mediaType)
}
