package api

import (
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/api/header"
	"slipway/registry/internal/clientaddr"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Header values that never change. net/http only reads them.
var (
	octetStream  = []string{"application/octet-stream"}
	acceptBytes  = []string{"bytes"}
	cacheForYear = []string{"max-age=31536000"}
)

func (a *API) headBlob(w http.ResponseWriter, r *request) error {
	d, err := oci.ParseDigest(r.last)
	if err != nil {
		return err
	}
	desc, err := a.puller(r).StatBlob(r.Context(), d)
	if err != nil {
		return err
	}
	done, err := blobHeaders(w, r, d)
	if err != nil {
		return err
	}
	if !done {
		w.Header()["Content-Length"] = []string{strconv.FormatInt(desc.Size, 10)}
		w.WriteHeader(http.StatusOK)
	}
	a.emitBlobPull(r, d, desc.Size)
	return nil
}

func (a *API) getBlob(w http.ResponseWriter, r *request) error {
	d, err := oci.ParseDigest(r.last)
	if err != nil {
		return err
	}
	if done, err := a.redirectBlob(w, r, d); done || err != nil {
		return err
	}
	b, err := a.puller(r).OpenBlob(r.Context(), d)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // nothing was written
	r.digest = d
	done, err := blobHeaders(w, r, d)
	if err == nil && !done {
		err = sendBlob(w, r, b)
	}
	if err == nil {
		a.emitBlobPull(r, d, b.Size())
	}
	return err
}

// sendBlob sends the blob, or what of it is asked for.
func sendBlob(w http.ResponseWriter, r *request, b *registry.Blob) error {
	kind, part := header.RangeNone, header.Span{Length: b.Size()}
	if asked := r.Header["Range"]; len(asked) > 0 && header.RangeApplies(r.Header, w.Header()["Etag"][0]) {
		kind, part = header.ParseRange(asked[0], b.Size())
	}
	switch kind {
	case header.RangeSeveral:
		http.ServeContent(w, r.Request, "", time.Time{}, b)
		return nil
	case header.RangeUnsatisfiable:
		return unsatisfiable(w, b.Size())
	case header.RangeOne:
		w.Header()["Content-Range"] = []string{part.ContentRange(b.Size())}
		return sendPart(w, b, part, http.StatusPartialContent)
	default:
		return sendPart(w, b, header.Span{Length: b.Size()}, http.StatusOK)
	}
}

// blobHeaders sets what GET and HEAD have in common and evaluates the
// preconditions. done says that the answer is complete.
func blobHeaders(w http.ResponseWriter, r *request, d oci.Digest) (done bool, err error) {
	etag := setContentHeaders(w, "", d)
	h := w.Header()
	h["Content-Type"], h["Accept-Ranges"], h["Cache-Control"] = octetStream, acceptBytes, cacheForYear
	switch header.Condition(r.Header, etag) {
	case http.StatusNotModified:
		delete(h, "Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return true, nil
	case http.StatusPreconditionFailed:
		return true, preconditionFailed(w, oci.CodeBlobUnknown)
	}
	return false, nil
}

func unsatisfiable(w http.ResponseWriter, size int64) error {
	h := w.Header()
	delete(h, "Etag")
	delete(h, "Cache-Control")
	h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	return oci.Explain(oci.CodeRangeInvalid, "the range lies outside the blob")
}

// sendPart sends a part of the blob. An error comes after the answer has
// begun, so fail cuts the connection.
func sendPart(w http.ResponseWriter, b *registry.Blob, part header.Span, status int) error {
	if part.Start > 0 {
		if _, err := b.Seek(part.Start, io.SeekStart); err != nil {
			return err
		}
	}
	w.Header()["Content-Length"] = []string{strconv.FormatInt(part.Length, 10)}
	w.WriteHeader(status)
	if part.Length == 0 {
		return nil
	}
	var src io.Reader = b
	if f, ok := b.File(); ok { // the kernel sends it, behind the head
		src = f
		if head, ok := w.(http.Flusher); ok {
			head.Flush()
		}
	}
	_, err := io.CopyN(w, src, part.Length)
	return err
}

func (a *API) deleteBlob(w http.ResponseWriter, r *request) error {
	d, err := oci.ParseDigest(r.last)
	if err != nil {
		return err
	}
	r.digest = d
	if err := a.readyToDelete(w, r); err != nil {
		return err
	}
	if err := a.repository(r).DeleteBlob(r.Context(), d); err != nil {
		return err
	}
	if err := a.emitDeletion(w, r, notify.Target{Digest: d}); err != nil {
		return err
	}
	return acceptedEmpty(w)
}

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
	client, known := clientaddr.ParseHop(r.RemoteAddr)
	if len(a.opts.NoRedirect) == 0 {
		return client, true
	}
	excluded := clientaddr.Proxies{Networks: a.opts.NoRedirect}
	return client, known && !excluded.Has(client)
}
