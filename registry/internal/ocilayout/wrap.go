package ocilayout

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// wraps names, in the entry of a wrapper, the entry that it stands for.
const wraps = "io.slipway.wraps"

// wrapper stands for an entry of Docker's media types, which skopeo does not find
// by name in a layout: an index of the OCI's around it, or with what it lists.
type wrapper struct {
	entry oci.Descriptor
	body  []byte
}

// wrap makes the wrapper of an entry, or none if it needs none.
func wrap(entry oci.Descriptor, m *registry.Manifest) (*wrapper, error) {
	manifests, err := json.Marshal([]oci.Descriptor{{MediaType: entry.MediaType, Digest: entry.Digest, Size: entry.Size}})
	switch entry.MediaType {
	case oci.MediaTypeDockerManifest:
	case oci.MediaTypeDockerList:
		var list struct {
			Manifests json.RawMessage `json:"manifests"`
		}
		err = json.Unmarshal(m.Bytes, &list)
		manifests = list.Manifests
	default:
		return nil, nil //nolint:nilnil // none is needed
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
	}{2, oci.MediaTypeIndex, manifests})
	w := &wrapper{body: body, entry: oci.Descriptor{
		MediaType: oci.MediaTypeIndex, Digest: oci.SHA256.FromBytes(body), Size: int64(len(body)), Annotations: maps.Clone(entry.Annotations),
	}}
	w.entry.Annotations[wraps] = string(entry.Digest)
	return w, err
}

// wrappers enters the wrappers into the index. With one entry alone nobody needs
// a name, and crane takes no second one.
func (e *exporter) wrappers(ctx context.Context) error {
	if len(e.index.Manifests) < 2 {
		return nil
	}
	for _, w := range e.wrapped {
		if _, err := e.PutBlob(ctx, w.entry.Digest, w.entry.Size, bytes.NewReader(w.body)); err != nil {
			return err
		}
		e.index.Manifests = append(e.index.Manifests, w.entry)
	}
	return nil
}
