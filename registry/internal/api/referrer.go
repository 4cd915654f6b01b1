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

	// referrersCost is what making a page takes at most: the descriptors, of which
	// the rules give 2 MiB, and the body.
	referrersCost = 6 << 20
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
	page := referrersPage{a.repository(r), subject, artifactType, r.param("last"), n}
	if err := a.memory.acquire(r.Context(), referrersCost); err != nil {
		return err
	}
	body, next, warning, err := page.body(r.Context())
	a.memory.room.Release(referrersCost)
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
	return a.writeLarge(w, r, contentTypeIndex, body, referrersCost, func(ctx context.Context) ([]byte, error) {
		body, _, _, err := page.body(ctx)
		return body, err
	})
}

// referrersPage is what a client asks for.
type referrersPage struct {
	repository   registry.Repository
	subject      oci.Digest
	artifactType string
	last         string
	n            int
}

// body is the image index with the page, behind which digest the next one begins, "" if it
// is the last, and what the client is told about it.
func (p *referrersPage) body(ctx context.Context) (body []byte, next, warning string, err error) {
	descriptors, page, err := p.repository.Referrers(ctx, p.subject, p.artifactType, p.last, p.n)
	if err != nil {
		return nil, "", "", err
	}
	next = page.Next
	body = append(body, `{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`...)
	for i := range descriptors {
		b, err := json.Marshal(&descriptors[i])
		if err != nil {
			return nil, "", "", err
		}
		if i > 0 && len(body)+len(b) > maxReferrersBytes {
			next = string(descriptors[i-1].Digest)
			break
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, b...)
	}
	return append(body, "]}\n"...), next, page.Warning, nil
}
