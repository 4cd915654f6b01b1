package oci

import "strings"

// Media types of manifests (image-spec 1.1, Docker image manifest v2 schema 2)
// and of the few layers that are treated apart.
const (
	MediaTypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	MediaTypeIndex          = "application/vnd.oci.image.index.v1+json"
	MediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	MediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"

	MediaTypeDockerForeignLayer = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
	mediaTypeNonDistributable   = "application/vnd.oci.image.layer.nondistributable.v1."

	// Schema 1 can no longer be pushed; volumes of CNCF distribution 2 hold it.
	mediaTypeSchema1       = "application/vnd.docker.distribution.manifest.v1+json"
	mediaTypeSchema1Signed = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

// IsManifest reports whether content of the type is stored and served under
// /manifests/.
func IsManifest(mediaType string) bool {
	switch mediaType {
	case MediaTypeManifest, MediaTypeIndex, MediaTypeDockerManifest, MediaTypeDockerList:
		return true
	}
	return false
}

// IsIndex reports whether the type lists manifests instead of layers.
func IsIndex(mediaType string) bool {
	return mediaType == MediaTypeIndex || mediaType == MediaTypeDockerList
}

func isDocker(mediaType string) bool {
	return mediaType == MediaTypeDockerManifest || mediaType == MediaTypeDockerList
}

// NonDistributable reports whether a layer of the type may lie elsewhere, at its
// descriptor's URLs.
func NonDistributable(mediaType string) bool {
	return mediaType == MediaTypeDockerForeignLayer || strings.HasPrefix(mediaType, mediaTypeNonDistributable)
}
