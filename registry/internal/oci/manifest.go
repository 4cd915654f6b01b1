package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Manifest holds the fields of a manifest or index that the registry reads. The bytes that
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
// Descriptors without a valid digest are left out.
func ReadManifest(body []byte) (*Manifest, error) {
	doc, _, err := decode(body)
	if err != nil && !errors.Is(err, errOdd) {
		return nil, err
	}
	m := doc.view(doc.storedType())
	invalid := func(d Descriptor) bool { return digestProblem(string(d.Digest)) != "" }
	m.Layers, m.Manifests = slices.DeleteFunc(m.Layers, invalid), slices.DeleteFunc(m.Manifests, invalid)
	if m.Config != nil && invalid(*m.Config) {
		m.Config = nil
	}
	if m.Subject != nil && invalid(*m.Subject) {
		m.Subject = nil
	}
	return m, nil
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
// nothing but their digests.
func schema1Layers(fsLayers *json.RawMessage) []Descriptor {
	var list []struct {
		BlobSum Digest `json:"blobSum"`
	}
	if fsLayers == nil || json.Unmarshal(*fsLayers, &list) != nil {
		return nil
	}
	layers := make([]Descriptor, 0, len(list))
	for _, l := range list {
		layers = append(layers, Descriptor{Digest: l.BlobSum})
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
	return Explain(CodeManifestInvalid, fmt.Sprintf(format, args...))
}

// References holds all content that a stored manifest may need, whatever its type and
// the program that wrote it.
type References struct {
	Needed  []Digest // blobs and manifests, perhaps layers that lie elsewhere by design
	Subject Digest   // "" if it has none
}

// allReferences is the union of the fields of all manifest types that refer to
// something: those of document, the layers of schema version 1, and the blobs
// of the artifact manifest that never became a standard.
type allReferences struct {
	Config    *Descriptor  `json:"config"`
	Layers    []Descriptor `json:"layers"`
	Manifests []Descriptor `json:"manifests"`
	Blobs     []Descriptor `json:"blobs"`
	Subject   *Descriptor  `json:"subject"`
	FSLayers  []struct {
		BlobSum Digest `json:"blobSum"`
	} `json:"fsLayers"`
}

// ReadReferences returns the references of a manifest. It errs on the side of more: a
// document that is both an index and a manifest needs the content of either. Invalid
// digests are left out. The error is an *Error with CodeManifestInvalid.
func ReadReferences(body []byte) (*References, error) {
	if _, err := shape(body); err != nil {
		return nil, err
	}
	var doc allReferences
	if err := json.Unmarshal(body, &doc); err != nil && !odd(err) {
		return nil, unreadable(err)
	}
	r := &References{Needed: make([]Digest, 0, 1+len(doc.Layers)+len(doc.Manifests)+len(doc.Blobs)+len(doc.FSLayers))}
	if doc.Config != nil {
		r.need(doc.Config.Digest)
	}
	for _, list := range [][]Descriptor{doc.Layers, doc.Manifests, doc.Blobs} {
		for i := range list {
			r.need(list[i].Digest)
		}
	}
	for _, layer := range doc.FSLayers {
		r.need(layer.BlobSum)
	}
	if doc.Subject != nil && digestProblem(string(doc.Subject.Digest)) == "" {
		r.Subject = doc.Subject.Digest
	}
	return r, nil
}

func (r *References) need(d Digest) {
	if digestProblem(string(d)) == "" {
		r.Needed = append(r.Needed, d)
	}
}

// Bounds on a manifest's shape. A few bytes of JSON become a descriptor of
// hundreds of bytes in memory, so a hostile body inside the size limit could
// otherwise take a hundred times its length. Real indexes have some hundred
// entries.
const (
	maxObjects  = 20_000
	maxElements = 200_000
	maxDepth    = 64
)

// shape walks a JSON document once, before it is decoded, and returns its
// top-level keys. The error is about the bounds alone: whether the document is
// JSON, the decoder says.
func shape(body []byte) (keys []string, err error) {
	var objects, elements, depth int
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			end := stringEnd(body, i)
			if depth == 1 && isKey(body, end) {
				keys = append(keys, unquote(body[i:end]))
			}
			i = end - 1
		case '{':
			objects++
			elements++
			depth++
		case '[':
			elements++
			depth++
		case '}', ']':
			depth--
		case ',':
			elements++
		}
		if objects > maxObjects || elements > maxElements || depth > maxDepth {
			return nil, invalid("manifest has too many or too deeply nested elements")
		}
	}
	return keys, nil
}

// fields are the keys that the registry reads.
var fields = []string{"schemaVersion", "mediaType", "artifactType", "config", "layers", "fsLayers", "manifests", "subject", "annotations", "signatures"}

// checkKeys refuses ambiguous keys: encoding/json folds the case of keys and takes the
// last of duplicates, and other parsers of the same bytes don't.
func checkKeys(keys []string) error {
	seen := make(map[string]bool, len(fields))
	for _, key := range keys {
		for _, field := range fields {
			if strings.EqualFold(key, field) && (key != field || seen[field]) {
				return invalid("manifest has the key %q twice, or in the wrong case", key)
			}
			seen[field] = seen[field] || key == field
		}
	}
	return nil
}

// stringEnd returns the index after the string that begins at start.
func stringEnd(body []byte, start int) int {
	for i := start + 1; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(body)
}

// isKey reports whether a colon follows.
func isKey(body []byte, i int) bool {
	for ; i < len(body); i++ {
		switch body[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return body[i] == ':'
		}
	}
	return false
}

// unquote reads a JSON string; "" if it isn't one, which the decoder reports.
func unquote(quoted []byte) (s string) {
	_ = json.Unmarshal(quoted, &s)
	return s
}

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

// NonDistributable reports whether a layer of the type may be stored elsewhere, at the
// URLs of its descriptor.
func NonDistributable(mediaType string) bool {
	return mediaType == MediaTypeDockerForeignLayer || strings.HasPrefix(mediaType, mediaTypeNonDistributable)
}
