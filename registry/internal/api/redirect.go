package api

import (
	"net/http"
	"net/netip"
	"strings"

	"slipway/registry/internal/address"
	"slipway/registry/internal/oci"
)

// redirectBlob sends the client to where the store serves the blob, or its range, itself.
// done says that the answer is complete; without an error and not done the blob is served
// from here. HEAD is never redirected: a signed URL is for one method.
func (a *API) redirectBlob(w http.ResponseWriter, r *request, d oci.Digest) (done bool, err error) {
	client, may := a.mayRedirect(r)
	if !may {
		return false, nil
	}
	url, desc, err := a.puller(r).BlobURL(r.Context(), d, client)
	if err != nil || url == "" {
		return false, err
	}
	r.digest = d
	if done, err = blobHeaders(w, r, d); err != nil {
		return true, err
	}
	if !done { // not 304; what blobHeaders says of the blob is not true of this answer
		h := w.Header()
		delete(h, "Etag")
		delete(h, "Content-Type")
		delete(h, "Accept-Ranges")
		h["Location"], h["Content-Length"] = []string{url}, []string{"0"}
		h["Cache-Control"] = []string{"no-store"} // the URL is a secret, and soon expires
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	a.emitBlobPull(r, d, desc.Size)
	return true, nil
}

// mayRedirect reports whether the client may be sent elsewhere, and its address. The store knows
// its own entity tags only, so what depends on ours is answered here,
// and so are several ranges: S3 would answer with the whole blob.
func (a *API) mayRedirect(r *request) (client netip.Addr, may bool) {
	ranges := r.Header["Range"]
	if len(r.Header["If-Match"]) > 0 || len(r.Header["If-Range"]) > 0 || len(ranges) > 0 && strings.Contains(ranges[0], ",") {
		return client, false
	}
	client, known := address.ParseHop(r.RemoteAddr)
	if len(a.opts.NoRedirect) == 0 {
		return client, true
	}
	excluded := address.Proxies{Networks: a.opts.NoRedirect}
	return client, known && !excluded.Has(client)
}
