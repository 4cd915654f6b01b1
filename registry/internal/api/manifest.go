package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"slipway/registry/internal/api/header"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// getManifest answers GET and HEAD.
func (a *API) getManifest(w http.ResponseWriter, r *request) error {
	ref, err := oci.ParseReference(r.last)
	if err != nil {
		return unknownTag(err)
	}
	look := a.puller(r).Manifest
	if r.Method == http.MethodHead {
		look = a.puller(r).StatManifest
	}
	found, err := look(r.Context(), ref)
	m := found
	if err == nil {
		m, err = a.negotiate(w, r, ref, found)
	}
	if err != nil {
		return damagedIsUnknown(r, err)
	}
	r.digest = m.Digest
	if err := a.checkSignature(w, r, m); err != nil {
		return err
	}
	warn(w, found.Warning)
	etag := setContentHeaders(w, m.MediaType, m.Digest)
	switch header.Condition(r.Header, etag) {
	case http.StatusNotModified:
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return nil
	case http.StatusPreconditionFailed:
		return preconditionFailed(w, oci.CodeManifestUnknown)
	}
	contentType := w.Header()["Content-Type"]
	if m.Size > smallBody && r.Method == http.MethodGet {
		size, from, d := m.Size, found.Digest, m.Digest
		found, m = nil, nil // requests that wait for room must not hold the bytes
		release, err := a.room(r, size)
		if err == nil {
			defer release()
			found, m, err = a.findAgain(r, from, d)
		}
		if err != nil {
			w.Header().Del("Docker-Content-Digest")
			w.Header().Del("Etag")
			return err
		}
	}
	if err := writeBody(w, r, http.StatusOK, contentType, m.Bytes); err != nil {
		return err
	}
	a.emitManifestPull(r, ref.Tag, found, m)
	return nil
}

// findAgain returns a manifest that was found a moment ago, and the one of it that is served.
func (a *API) findAgain(r *request, d, serve oci.Digest) (found, served *registry.Manifest, err error) {
	if found, err = a.puller(r).Manifest(r.Context(), oci.Reference{Digest: d}); err != nil || serve == d {
		return found, found, err
	}
	served, err = a.puller(r).Manifest(r.Context(), oci.Reference{Digest: serve})
	return found, served, err
}

// unknownTag treats a tag outside the grammar as one that doesn't exist, as distribution-spec
// wants for a GET.
func unknownTag(err error) error {
	var e *oci.Error
	if errors.As(err, &e) && e.Code == oci.CodeTagInvalid {
		return oci.Explain(oci.CodeManifestUnknown, e.Message)
	}
	return err
}

// damagedIsUnknown answers HEAD of a damaged manifest with 404, so that the
// next push repairs it; GET is a fault.
func damagedIsUnknown(r *request, err error) error {
	if r.Method == http.MethodHead && errors.Is(err, registry.ErrDamaged) {
		return &oci.Error{Code: oci.CodeManifestUnknown, Err: err}
	}
	return err
}

// negotiate answers what the client can read: the manifest itself, or, for old
// Docker clients, the linux/amd64 image of a list.
func (a *API) negotiate(w http.ResponseWriter, r *request, ref oci.Reference, m *registry.Manifest) (*registry.Manifest, error) {
	accepted := header.Accepted(r.Header["Accept"])
	switch accepted.Judge(m.MediaType, ref.Tag != "") {
	case header.ServeChild:
		child, err := a.child(r, m)
		if err == nil && !accepted.ReadsChild(child.MediaType) {
			return nil, &oci.Error{Code: oci.CodeManifestInvalid, Message: "Schema 2 manifest not supported by client"}
		}
		if err == nil {
			w.Header().Add("Warning", `299 - "the tag names a list of manifests, which the client does not accept: this is its linux/amd64 image"`)
		}
		return child, err
	case header.RefuseOCI:
		return nil, &oci.Error{Code: oci.CodeManifestUnknown, Message: "OCI manifest found, but accept header does not support OCI manifests"}
	default:
		return m, nil
	}
}

func (a *API) child(r *request, list *registry.Manifest) (*registry.Manifest, error) {
	parsed, err := oci.ReadManifest(list.Bytes)
	if err != nil {
		return nil, err
	}
	for i := range parsed.Manifests {
		if c := &parsed.Manifests[i]; c.Platform != nil && c.Platform.OS == "linux" && c.Platform.Architecture == "amd64" {
			return a.puller(r).Manifest(r.Context(), oci.Reference{Digest: c.Digest})
		}
	}
	return nil, oci.Explain(oci.CodeManifestUnknown, "the list has no linux/amd64 image, and the accept header does not support lists")
}

// setContentHeaders sets type, digest and entity tag, and returns the latter.
func setContentHeaders(w http.ResponseWriter, mediaType string, d oci.Digest) (etag string) {
	etag = `"` + string(d) + `"`
	v := [3]string{mediaType, etag[1 : len(etag)-1], etag}
	h := w.Header()
	h["Content-Type"], h["Docker-Content-Digest"], h["Etag"] = v[0:1:1], v[1:2:2], v[2:3:3]
	return etag
}

func preconditionFailed(w http.ResponseWriter, code oci.Code) error {
	w.Header().Del("Docker-Content-Digest")
	w.Header().Del("Etag")
	w.Header().Del("Cache-Control")
	return &statusError{http.StatusPreconditionFailed, oci.Explain(code, "the content has changed: its digest is not in If-Match")}
}

func (a *API) deleteManifest(w http.ResponseWriter, r *request) error {
	ref, err := oci.ParseReference(r.last)
	if err != nil {
		return unknownTag(err)
	}
	if err := a.readyToDelete(w, r); err != nil {
		return err
	}
	gone := []notify.Target{{Tag: ref.Tag}}
	if ref.Tag != "" {
		r.digest, err = a.deletable(w, r).DeleteTag(r.Context(), ref.Tag)
	} else {
		gone, err = a.deleteRevision(w, r, ref.Digest)
	}
	if err == nil {
		err = a.emitDeletion(w, r, gone...)
	}
	if err != nil {
		return err
	}
	return acceptedEmpty(w)
}

// deleteRevision deletes a manifest and describes what went: itself and its tags.
func (a *API) deleteRevision(w http.ResponseWriter, r *request, d oci.Digest) (gone []notify.Target, err error) {
	r.digest = d
	tags, err := a.deletable(w, r).DeleteManifest(r.Context(), d)
	gone = append(gone, notify.Target{Digest: d})
	for _, tag := range tags {
		gone = append(gone, notify.Target{Tag: tag})
	}
	return gone, err
}

// acceptedEmpty answers a deletion.
func acceptedEmpty(w http.ResponseWriter) error {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
	return nil
}

const (
	// maxTagsPerPut bounds the tags of one push: each costs writes to the storage.
	maxTagsPerPut = 100
	// maxUnread bounds the bytes that are read and discarded of a manifest that is too large. A
	// client that sends all before it reads gets a reset instead of the answer
	// if the connection is closed over bytes on their way.
	maxUnread = 16 << 20
)

func (a *API) putManifest(w http.ResponseWriter, r *request) error {
	ref, err := oci.ParseReference(r.last)
	if err != nil {
		return err
	}
	tags, err := extraTags(r)
	if err != nil {
		return err
	}
	body, release, err := a.readManifest(r)
	if err != nil {
		return err
	}
	defer release()
	if err := a.readyToCommit(w, r); err != nil {
		return err
	}
	before := a.tagsBefore(r, ref, tags)
	res, err := a.pushable(r).PutManifest(r.Context(), ref, r.Header.Get("Content-Type"), body, tags)
	if err != nil {
		return err
	}
	r.digest = res.Descriptor.Digest
	a.noteMoves(r, before)
	if err := a.emitManifestPush(r, res, body); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", a.links.Manifest(r.Request, r.name, r.digest))
	h.Set("Docker-Content-Digest", string(r.digest))
	if res.Subject != "" {
		h.Set("OCI-Subject", string(res.Subject))
	}
	if len(tags) > 0 {
		for _, t := range res.Tags {
			h.Add("OCI-Tag", string(t))
		}
	}
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return nil
}

// extraTags reads the tag parameters of a push (distribution-spec "Pushing
// Manifests": PUT …/manifests/<digest>?tag=a&tag=b).
func extraTags(r *request) ([]oci.Tag, error) {
	values := r.params()["tag"]
	if len(values) > maxTagsPerPut {
		return nil, &statusError{http.StatusRequestURITooLong, oci.Explain(oci.CodeTagInvalid, "more than "+strconv.Itoa(maxTagsPerPut)+" tags in one request")}
	}
	tags := make([]oci.Tag, 0, len(values))
	for _, v := range values {
		t, err := oci.ParseTag(v)
		if err != nil {
			return nil, err
		}
		tags = append(tags, t)
	}
	return tags, nil
}

// readManifest reads the body, at most one byte more than a manifest may have.
// The memory grows with what arrives, not with what the client announces, and that
// of large ones is bounded until release is called.
func (a *API) readManifest(r *request) (body []byte, release func(), err error) {
	limit := a.opts.MaxManifestSize
	if r.ContentLength > limit {
		return nil, nil, tooLarge(r, limit)
	}
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), 32<<10)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(r.Body, min(limit+1, smallBody))); err != nil {
		return nil, nil, clientFailed(err)
	}
	if int64(b.Len()) > limit {
		return nil, nil, tooLarge(r, limit)
	}
	if b.Len() < smallBody {
		return b.Bytes(), func() {}, nil
	}
	if release, err = a.reserve(r, limit); err != nil {
		return nil, nil, err
	}
	if _, err = b.ReadFrom(io.LimitReader(r.Body, limit+1-int64(b.Len()))); err != nil {
		err = clientFailed(err)
	} else if int64(b.Len()) > limit {
		err = tooLarge(r, limit)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return b.Bytes(), release, nil
}

// reserve waits for memory for a large manifest. UNAVAILABLE.
func (a *API) reserve(r *request, limit int64) (release func(), err error) {
	size := limit
	if r.ContentLength > 0 {
		size = r.ContentLength
	}
	return a.bodies.Acquire(r.Context(), r.client(), size)
}

// tooLarge reads on, within bounds and unless the client asked before sending,
// so that the answer arrives.
func tooLarge(r *request, limit int64) error {
	if r.ContentLength <= limit+maxUnread && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxUnread) // the answer is the same whatever comes
	}
	return &statusError{http.StatusRequestEntityTooLarge, oci.Explain(oci.CodeManifestInvalid, "manifest is larger than "+strconv.FormatInt(limit, 10)+" bytes")}
}
