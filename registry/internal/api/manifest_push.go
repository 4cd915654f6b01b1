package api

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"slipway/registry/internal/oci"
)

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
