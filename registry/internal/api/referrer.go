package api

import (
	"context"
	"encoding/json"
	"net/http"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// A page of referrers is an image index, which clients limit to the size of a
// manifest; annotations make entries of any size. Few clients follow the Link,
// so a page holds as much as fits.
const (
	maxReferrers      = 1000
	maxReferrersBytes = 3 << 20

	// referrersCost is the memory reserved for a page.
	referrersCost = 4 << 20
)

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
	release, err := a.answers.Acquire(r.Context(), r.client(), referrersCost)
	if err != nil {
		return err
	}
	defer release()
	body, next, warning, err := referrersPage(r.Context(), a.puller(r), subject, artifactType, r.param("last"), n)
	if err != nil {
		return err
	}
	warn(w, warning)
	if artifactType != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	if next != "" {
		parameters := nextPage(n, next)
		if artifactType != "" {
			parameters.Set("artifactType", artifactType)
		}
		r.linkNext(w, parameters)
	}
	return writeBody(w, r, http.StatusOK, contentTypeIndex, body)
}

// referrersPage returns an image index with one page of referrers, and the digest behind which
// the next page begins, "" on the last one.
func referrersPage(ctx context.Context, repo registry.Puller, subject oci.Digest, artifactType, last string, n int) (body []byte, next, warning string, err error) {
	descriptors, page, err := repo.Referrers(ctx, subject, artifactType, last, n)
	if err != nil {
		return nil, "", "", err
	}
	next = page.Next
	index := struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Manifests     []json.RawMessage `json:"manifests"`
	}{2, oci.MediaTypeIndex, []json.RawMessage{}}
	size := 0
	for i := range descriptors {
		b, err := json.Marshal(&descriptors[i])
		if err != nil {
			return nil, "", "", err
		}
		if size += len(b); i > 0 && size > maxReferrersBytes {
			next = string(descriptors[i-1].Digest)
			break
		}
		index.Manifests = append(index.Manifests, b)
	}
	body, err = json.Marshal(&index)
	return append(body, '\n'), next, page.Warning, err
}
