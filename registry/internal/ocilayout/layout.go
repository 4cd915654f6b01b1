// Package ocilayout carries repositories in and out as OCI image layouts
// (image-spec "OCI Image Layout"), in a directory or a tar file, which skopeo,
// crane and others read and write.
package ocilayout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	maxIndex = 64 << 20 // bytes
)

// ErrNotLayout is inside the error for a source that is not an OCI layout.
var ErrNotLayout = errors.New("not an OCI layout")

// index is the entry of a layout.
type index struct {
	SchemaVersion int     `json:"schemaVersion"`
	MediaType     string  `json:"mediaType,omitempty"`
	Manifests     entries `json:"manifests"`
}

// entries have valid digests.
type entries []oci.Descriptor

// UnmarshalJSON implements json.Unmarshaler. It stops at the first entry without a digest: empty ones would take a hundred times as much
// memory as their JSON.
func (e *entries) UnmarshalJSON(list []byte) error {
	d := json.NewDecoder(bytes.NewReader(list))
	switch begin, err := d.Token(); {
	case err != nil || begin == nil:
		return err
	case begin != json.Delim('['):
		return errors.New("manifests is no list")
	}
	for d.More() {
		var one oci.Descriptor
		if err := d.Decode(&one); err != nil {
			return err
		}
		if _, err := oci.ParseDigest(string(one.Digest)); err != nil {
			return fmt.Errorf("entry %d: %w", len(*e), err)
		}
		*e = append(*e, one)
	}
	return nil
}

// blobFile returns the path of a blob in a layout.
func blobFile(d oci.Digest) string {
	return path.Join("blobs", string(d.Algorithm()), d.Hex())
}
