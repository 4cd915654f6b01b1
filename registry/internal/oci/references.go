package oci

import "encoding/json"

// References is everything that stored content of a manifest, of whatever kind
// and by whomever written, may need.
type References struct {
	Needed    []Digest // blobs and manifests
	Elsewhere []Digest // layers that lie elsewhere by design, though perhaps here too
	Subject   Digest   // "" if it has none
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

// ReadReferences reads them. It errs on the side of more references: a document
// that is both an index and a manifest needs what either needs. Digests that
// are none are left out. The error is an *Error with CodeManifestInvalid.
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
			r.describe(&list[i])
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

func (r *References) describe(d *Descriptor) {
	if !NonDistributable(d.MediaType) || len(d.URLs) == 0 {
		r.need(d.Digest)
	} else if digestProblem(string(d.Digest)) == "" {
		r.Elsewhere = append(r.Elsewhere, d.Digest)
	}
}

func (r *References) need(d Digest) {
	if digestProblem(string(d)) == "" {
		r.Needed = append(r.Needed, d)
	}
}
