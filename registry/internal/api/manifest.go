package api

import (
	"errors"
	"net/http"

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
		a.emitManifestPull(r, ref.Tag, found, m)
		return a.sendLargeManifest(w, r, contentType, m.Digest, m.Size)
	}
	if err := writeBody(w, r, http.StatusOK, contentType, m.Bytes); err != nil {
		return err
	}
	a.emitManifestPull(r, ref.Tag, found, m)
	return nil
}

// sendLargeManifest waits for room before it looks the manifest up again: requests that wait
// must not hold its bytes.
func (a *API) sendLargeManifest(w http.ResponseWriter, r *request, contentType []string, d oci.Digest, size int64) error {
	release, err := a.room(r, size)
	if err == nil {
		defer release()
		var m *registry.Manifest
		if m, err = a.puller(r).Manifest(r.Context(), oci.Reference{Digest: d}); err == nil {
			return writeBody(w, r, http.StatusOK, contentType, m.Bytes)
		}
	}
	w.Header().Del("Docker-Content-Digest")
	w.Header().Del("Etag")
	return err
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
