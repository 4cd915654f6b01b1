package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Manifest is what the registry reads of a manifest or index. The bytes that
// a client pushed are kept and served verbatim; this is only a view of them.
type Manifest struct {
	MediaType    string            // never empty
	ArtifactType string            // own artifactType; of a manifest without one, its config's media type
	Config       *Descriptor       // manifests only
	Layers       []Descriptor      // manifests only; of schema version 1 without sizes
	Manifests    []Descriptor      // indexes only
	Subject      *Descriptor       // OCI types only
	Annotations  map[string]string // OCI types only
}

// document is the union of the fields of all four manifest types. Presence
// matters for the fields that tell the types apart, hence the pointers.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *Descriptor       `json:"config"`
	Layers        *[]Descriptor     `json:"layers"`
	FSLayers      *json.RawMessage  `json:"fsLayers"`
	Manifests     *[]Descriptor     `json:"manifests"`
	Subject       *Descriptor       `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
	Signatures    *json.RawMessage  `json:"signatures"`
}

// ParseManifest reads a manifest that is being pushed as contentType
// (parameters are ignored; "" stands for the manifest's own mediaType). It
// refuses whatever could be read as two different things. The error is an
// *Error with CodeManifestInvalid.
func ParseManifest(contentType string, body []byte) (*Manifest, error) {
	doc, keys, err := decode(body)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(keys); err != nil {
		return nil, err
	}
	mediaType := bareType(contentType)
	if mediaType == "" {
		mediaType = doc.MediaType
	}
	if err := doc.check(mediaType); err != nil {
		return nil, err
	}
	m := doc.view(mediaType)
	return m, m.checkDescriptors()
}

// ReadManifest reads stored bytes, also distribution's: the media type comes
// out of the document (image-spec: it "SHOULD be used", so it may be absent)
// and nothing is refused that CNCF distribution takes, within our bounds.
func ReadManifest(body []byte) (*Manifest, error) {
	doc, _, err := decode(body)
	if err != nil && !errors.Is(err, errOdd) {
		return nil, err
	}
	if doc.Subject != nil && digestProblem(string(doc.Subject.Digest)) != "" {
		doc.Subject = nil
	}
	return doc.view(doc.storedType()), nil
}

// Descriptor is the entry of the manifest in a list of referrers
// (distribution-spec "Listing Referrers").
func (m *Manifest) Descriptor(d Digest, size int64) Descriptor {
	return Descriptor{
		MediaType: m.MediaType, Digest: d, Size: size,
		ArtifactType: m.ArtifactType, Annotations: m.Annotations,
	}
}

// decode returns the document also beside errOdd, without what is odd.
func decode(body []byte) (*document, []string, error) {
	keys, err := shape(body)
	if err != nil {
		return nil, nil, err
	}
	var doc document
	if err := json.Unmarshal(body, &doc); err != nil {
		return &doc, nil, unreadable(err)
	}
	return &doc, keys, nil
}

// bareType is a Content-Type without its parameters.
func bareType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// storedType falls back on the document's shape where it names no type.
func (doc *document) storedType() string {
	switch {
	case doc.MediaType != "":
		return doc.MediaType
	case doc.SchemaVersion == 1 && doc.Signatures != nil:
		return mediaTypeSchema1Signed
	case doc.SchemaVersion == 1:
		return mediaTypeSchema1
	case doc.Manifests != nil:
		return MediaTypeIndex
	default:
		return MediaTypeManifest
	}
}

// check holds a pushed document against the type it is pushed as. A document
// with the marks of both a manifest and an index means one thing to one client
// and another to the next (CVE-2021-41190), so it is refused.
func (doc *document) check(mediaType string) error {
	switch {
	case !IsManifest(mediaType):
		return invalid("unsupported manifest media type %q", excerpt(mediaType))
	case doc.SchemaVersion != 2:
		return invalid("unrecognized manifest schema version %d", doc.SchemaVersion)
	case doc.MediaType == "" && isDocker(mediaType):
		return invalid("mediaType is required in a manifest of type %q", mediaType)
	case doc.MediaType != "" && doc.MediaType != mediaType:
		return invalid("mediaType in manifest is %q, not %q", excerpt(doc.MediaType), mediaType)
	case doc.FSLayers != nil:
		return invalid("manifest has fsLayers, which belong to schema version 1")
	case IsIndex(mediaType) && (doc.Config != nil || doc.Layers != nil):
		return invalid("index has config or layers, which belong to a manifest")
	case !IsIndex(mediaType) && doc.Manifests != nil:
		return invalid("manifest has manifests, which belong to an index")
	case doc.storedType() != mediaType:
		// The type is kept nowhere but in the document.
		return invalid("manifest without mediaType and manifests cannot be told from an image manifest")
	case !IsIndex(mediaType) && doc.Config == nil:
		return invalid("manifest has no config")
	}
	return nil
}

func (doc *document) view(mediaType string) *Manifest {
	m := &Manifest{MediaType: mediaType, ArtifactType: doc.ArtifactType}
	if IsIndex(mediaType) {
		m.Manifests = deref(doc.Manifests)
	} else {
		m.Config, m.Layers = doc.Config, deref(doc.Layers)
		if doc.SchemaVersion == 1 {
			m.Layers = schema1Layers(doc.FSLayers)
		}
		if m.ArtifactType == "" && m.Config != nil {
			m.ArtifactType = m.Config.MediaType
		}
	}
	if !isDocker(mediaType) {
		m.Subject, m.Annotations = doc.Subject, doc.Annotations
	}
	return m
}

// schema1Layers is the layers of a manifest of schema version 1, which says
// nothing but their digests. Those that are none are left out.
func schema1Layers(fsLayers *json.RawMessage) []Descriptor {
	var list []struct {
		BlobSum Digest `json:"blobSum"`
	}
	if fsLayers == nil || json.Unmarshal(*fsLayers, &list) != nil {
		return nil
	}
	layers := make([]Descriptor, 0, len(list))
	for _, l := range list {
		if digestProblem(string(l.BlobSum)) == "" {
			layers = append(layers, Descriptor{Digest: l.BlobSum})
		}
	}
	return layers
}

func deref(list *[]Descriptor) []Descriptor {
	if list == nil {
		return nil
	}
	return *list
}

func (m *Manifest) checkDescriptors() error {
	for _, f := range []struct {
		name string
		one  *Descriptor
		list []Descriptor
	}{
		{"config", m.Config, nil},
		{"layers", nil, m.Layers},
		{"manifests", nil, m.Manifests},
		{"subject", m.Subject, nil},
	} {
		if f.one != nil {
			f.list = []Descriptor{*f.one}
		}
		for i := range f.list {
			if err := f.list[i].check(); err != nil && f.one != nil {
				return invalid("%s: %s", f.name, err)
			} else if err != nil {
				return invalid("%s[%d]: %s", f.name, i, err)
			}
		}
	}
	return nil
}

func (d *Descriptor) check() error {
	if d.Size < 0 {
		return fmt.Errorf("size %d is negative", d.Size)
	}
	if problem := digestProblem(string(d.Digest)); problem != "" {
		return fmt.Errorf("digest %q: %s", excerpt(string(d.Digest)), problem)
	}
	return nil
}

func invalid(format string, args ...any) *Error {
	return NewError(CodeManifestInvalid, fmt.Sprintf(format, args...))
}
