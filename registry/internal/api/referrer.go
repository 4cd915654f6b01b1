package api

import (
	"encoding/json"
	"net/http"

	"slipway/registry/internal/oci"
)

// A page of referrers is an image index, which clients limit to the size of a
// manifest; annotations make entries of any size. Few clients follow the Link,
// so a page holds as much as fits.
const (
	maxReferrers      = 1000
	maxReferrersBytes = 3 << 20
)

type referrersIndex struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []json.RawMessage `json:"manifests"`
}

var contentTypeIndex = []string{oci.MediaTypeIndex}

// listReferrers answers the manifests whose subject is the digest
// (distribution-spec "Listing Referrers"). A repository or subject that does
// not exist has none.
func (a *API) listReferrers(w http.ResponseWriter, r *request) error {
	subject, err := oci.ParseDigest(r.last)
	if err != nil {
		return err
	}
	n, asked, err := r.pageSize()
	if err != nil {
		return err
	}
	if !asked || n == 0 || n > maxReferrers {
		n = maxReferrers
	}
	artifactType := r.param("artifactType")
	descriptors, next, err := a.repository(r).Referrers(r.Context(), subject, artifactType, r.param("last"), n)
	if err != nil {
		return err
	}
	index := referrersIndex{SchemaVersion: 2, MediaType: oci.MediaTypeIndex}
	index.Manifests, next, err = fit(descriptors, next)
	if err != nil {
		return err
	}
	if artifactType != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	if next != "" {
		page := nextPage(n, next)
		if artifactType != "" {
			page.Set("artifactType", artifactType)
		}
		r.linkNext(w, page)
	}
	body, err := json.Marshal(index)
	if err != nil {
		return err
	}
	writeBody(w, r, http.StatusOK, contentTypeIndex, append(body, '\n'))
	return nil
}

// fit encodes as many descriptors as a page may hold, at least one, and says
// behind which digest the next page begins.
func fit(descriptors []oci.Descriptor, next string) ([]json.RawMessage, string, error) {
	page, size := make([]json.RawMessage, 0, len(descriptors)), 0
	for i := range descriptors {
		b, err := json.Marshal(&descriptors[i])
		if err != nil {
			return nil, "", err
		}
		if size += len(b); size > maxReferrersBytes && i > 0 {
			return page, string(descriptors[i-1].Digest), nil
		}
		page = append(page, b)
	}
	return page, next, nil
}
