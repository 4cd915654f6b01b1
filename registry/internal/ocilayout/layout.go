// Package ocilayout carries repositories in and out as OCI image layouts
// (image-spec "OCI Image Layout"), in a directory or a tar file, which skopeo,
// crane and others read and write.
package ocilayout

import (
	"errors"
	"path"

	"slipway/registry/internal/oci"
)

const (
	versionFile = "oci-layout"
	version     = `{"imageLayoutVersion":"1.0.0"}`
	indexFile   = "index.json"

	// The names of entries in the index: that of the specification, and that by
	// which containerd and docker keep the whole name.
	refName   = "org.opencontainers.image.ref.name"
	imageName = "io.containerd.image.name"

	maxManifest = 64 << 20
)

// ErrNotLayout is inside the error for a source that is not an OCI layout.
var ErrNotLayout = errors.New("not an OCI layout")

// index is the entry of a layout.
type index struct {
	SchemaVersion int              `json:"schemaVersion"`
	MediaType     string           `json:"mediaType,omitempty"`
	Manifests     []oci.Descriptor `json:"manifests"`
}

// blobFile returns the path of a blob in a layout.
func blobFile(d oci.Digest) string {
	return path.Join("blobs", string(d.Algorithm()), d.Hex())
}
