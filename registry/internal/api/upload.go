package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"slipway/registry/internal/api/header"
	"slipway/registry/internal/api/urls"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
)

// startUpload answers POST: it mounts, takes a whole blob, or begins an upload.
func (a *API) startUpload(w http.ResponseWriter, r *request) error {
	if mount := r.param("mount"); mount != "" {
		done, err := a.mountBlob(w, r, mount)
		if done || err != nil {
			return err
		}
	}
	digest, alg, err := uploadDigest(r)
	if err != nil {
		return err
	}
	if digest != "" && (r.ContentLength != 0 || digest.Empty()) {
		return a.takeWhole(w, r, digest)
	}
	up, err := a.repository(r).StartUpload(r.Context(), alg)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // the upload stays for the next request, or is done
	return a.answerUpload(w, r, pointOf(up), http.StatusAccepted)
}

// uploadDigest reads the parameters of POST that tell about the digest to
// come. A single POST without a body is taken as the start of an upload.
func uploadDigest(r *request) (d oci.Digest, alg oci.Algorithm, err error) {
	if s := r.param("digest"); s != "" {
		if d, err = oci.ParseDigest(s); err != nil {
			return "", "", err
		}
		return d, d.Algorithm(), nil
	}
	if s := r.param("digest-algorithm"); s != "" {
		alg, err = oci.ParseAlgorithm(s)
	}
	return "", alg, err
}

// takeWhole takes the blob out of the POST itself.
func (a *API) takeWhole(w http.ResponseWriter, r *request, d oci.Digest) error {
	up, err := a.repository(r).StartWhole(r.Context(), d, r.ContentLength)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // it is done, or cancelled
	err = receive(w, r, up)
	if err == nil {
		err = a.readyToCommit(w, r)
	}
	var desc oci.Descriptor
	if err == nil {
		desc, err = up.Commit(r.Context(), d)
	}
	if err != nil {
		// The client has no URL to go on with. What cannot be removed now is
		// purged later.
		_ = up.Cancel(r.Context())
		return err
	}
	r.event = "push"
	return a.answerPush(w, r, d, desc.Size)
}

// mountBlob tries a cross-repository mount. That there is no such blob, or that the client may
// not read it, is no error: the client uploads it instead. A quota without room and a store that
// fails are errors, as the upload would fail as well.
func (a *API) mountBlob(w http.ResponseWriter, r *request, mount string) (done bool, err error) {
	d, from, ok := mountSource(mount, r.param("from"))
	if !ok {
		return false, nil
	}
	if err := a.readyToCommit(w, r); err != nil {
		return false, err
	}
	desc, err := a.repository(r).MountBlob(r.Context(), d, from, r.canPull())
	if errors.Is(err, quota.ErrExceeded) {
		return false, err
	}
	switch code(err) {
	case "":
		r.event = "mount"
		target := a.blobTarget(r, desc.Digest, desc.Size)
		target.FromRepository = from
		if err := a.emit(r, notify.Mount, target); err != nil {
			return true, err
		}
		return true, a.answerBlob(w, r, desc.Digest)
	case oci.CodeBlobUnknown, oci.CodeNameUnknown, oci.CodeDenied:
		return false, nil
	default:
		return false, err
	}
}

// mountSource parses the parameters of a mount. ok is false without a valid repository to mount
// from: the client then uploads.
func mountSource(mount, from string) (d oci.Digest, name oci.Name, ok bool) {
	d, err := oci.ParseDigest(mount)
	if err == nil {
		name, err = oci.ParseName(from)
	}
	return d, name, err == nil
}

// patchUpload appends a chunk, or a stream without a range.
func (a *API) patchUpload(w http.ResponseWriter, r *request) error {
	up, err := a.resume(w, r)
	if err != nil {
		return err
	}
	err = receive(w, r, up)
	if closeErr := up.Close(); err == nil {
		err = closeErr // acknowledged bytes are kept for the next request
	}
	if err != nil {
		return a.misplaced(w, r, err)
	}
	return a.answerUpload(w, r, pointOf(up), http.StatusAccepted)
}

// putUpload completes an upload, perhaps with its last chunk.
func (a *API) putUpload(w http.ResponseWriter, r *request) error {
	d, err := finalDigest(r)
	if err != nil {
		return err
	}
	up, err := a.resume(w, r)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // the upload stays for the next request, or is done
	if up.Size() == 0 {
		up.Expect(d, r.ContentLength)
	}
	if err := receive(w, r, up); err != nil {
		return a.misplaced(w, r, err)
	}
	if err := a.readyToCommit(w, r); err != nil {
		return err
	}
	desc, err := up.Commit(r.Context(), d)
	if err != nil {
		return a.misplaced(w, r, err)
	}
	return a.answerPush(w, r, d, desc.Size)
}

func finalDigest(r *request) (oci.Digest, error) {
	s := r.param("digest")
	if s == "" {
		return "", oci.Explain(oci.CodeDigestInvalid, "the parameter digest is missing")
	}
	return oci.ParseDigest(s)
}

// getUpload describes how far an upload has come. It does not disturb the
// writer.
func (a *API) getUpload(w http.ResponseWriter, r *request) error {
	st, err := a.repository(r).UploadStatus(r.Context(), r.last)
	if err != nil {
		return err
	}
	return a.answerUpload(w, r, uploadPoint{id: r.last, size: st.Size, startedAt: st.StartedAt}, http.StatusNoContent)
}

func (a *API) deleteUpload(w http.ResponseWriter, r *request) error {
	st, _, err := a.readState(r)
	if err != nil {
		return err
	}
	up, err := a.repository(r).ResumeUpload(r.Context(), r.last, registry.UploadPoint{StartedAt: st.StartedAt})
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // the upload stays for the next request, or is done
	if err := up.Cancel(r.Context()); err != nil {
		return err
	}
	w.Header().Set("Docker-Upload-Uuid", r.last)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readState reads the _state of the upload's URL. ok is false without one: the
// size on the storage is then the only offset there is.
func (a *API) readState(r *request) (st urls.UploadState, ok bool, err error) {
	token := r.param("_state")
	if token == "" {
		return st, false, nil
	}
	st, err = a.signer.Read(token, r.name, r.last)
	return st, err == nil, err
}

// resume takes the upload in the URL over from a request that may still be writing to
// it, if the request continues where the upload ends. If it does not, nobody is
// disturbed, and the answer is 416 and says where that is.
func (a *API) resume(w http.ResponseWriter, r *request) (*registry.Upload, error) {
	st, stated, err := a.readState(r)
	if err != nil {
		return nil, err
	}
	chunk, ranged, err := header.Chunk(r.Request)
	if err != nil {
		return nil, err
	}
	at := registry.UploadPoint{Exact: stated || ranged, Offset: st.Offset, StartedAt: st.StartedAt, Algorithm: st.Algorithm}
	var up *registry.Upload
	if stated && ranged && st.Offset != chunk.Start {
		err = oci.Explain(oci.CodeRangeInvalid, fmt.Sprintf("Content-Range begins at byte %d, but the upload's URL is for byte %d", chunk.Start, st.Offset))
	} else {
		if ranged {
			at.Offset = chunk.Start
		}
		up, err = a.repository(r).ResumeUpload(r.Context(), r.last, at)
	}
	return up, a.misplaced(w, r, err)
}

// misplaced returns err. If the request doesn't continue at the end of the upload, the answer names that offset.
func (a *API) misplaced(w http.ResponseWriter, r *request, err error) error {
	if code(err) == oci.CodeRangeInvalid {
		if err := a.currentPoint(w, r); err != nil {
			return err
		}
		readOn(w, r)
	}
	return err
}

// currentPoint sets the headers with the offset at which an upload continues.
func (a *API) currentPoint(w http.ResponseWriter, r *request) error {
	st, err := a.repository(r).UploadStatus(r.Context(), r.last)
	if err != nil {
		return err
	}
	return a.uploadHeaders(w, r, uploadPoint{id: r.last, size: st.Size, startedAt: st.StartedAt})
}

// uploadPoint describes the progress of an upload.
type uploadPoint struct {
	id        string
	size      int64
	startedAt time.Time
	algorithm oci.Algorithm // "" for the usual one
}

func pointOf(up *registry.Upload) uploadPoint {
	p := uploadPoint{id: up.ID(), size: up.Size(), startedAt: up.StartedAt()}
	if alg := up.Algorithm(); alg != oci.SHA256 {
		p.algorithm = alg
	}
	return p
}

func (a *API) answerUpload(w http.ResponseWriter, r *request, p uploadPoint, status int) error {
	if err := a.uploadHeaders(w, r, p); err != nil {
		return err
	}
	if status != http.StatusNoContent {
		w.Header().Set("Content-Length", "0")
	}
	w.WriteHeader(status)
	return nil
}

// uploadHeaders says where and with which byte the upload goes on. Range is
// "0-0" for an empty upload too: the header has no form for nothing.
func (a *API) uploadHeaders(w http.ResponseWriter, r *request, p uploadPoint) error {
	state, err := a.signer.Sign(urls.UploadState{Name: r.name, UUID: p.id, Offset: p.size, StartedAt: p.startedAt, Algorithm: p.algorithm})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", a.links.Upload(r.Request, r.name, p.id, state))
	h.Set("Range", "0-"+strconv.FormatInt(max(p.size-1, 0), 10))
	h.Set("Docker-Upload-Uuid", p.id)
	return nil
}

// answerPush emits the push of a blob and answers it.
func (a *API) answerPush(w http.ResponseWriter, r *request, d oci.Digest, size int64) error {
	if a.opts.Notify.Wants(notify.Push, blobMediaType) {
		if err := a.emit(r, notify.Push, a.blobTarget(r, d, size)); err != nil {
			return err
		}
	}
	return a.answerBlob(w, r, d)
}

// answerBlob answers a blob that is now there.
func (a *API) answerBlob(w http.ResponseWriter, r *request, d oci.Digest) error {
	r.digest = d
	h := w.Header()
	h.Set("Location", a.links.Blob(r.Request, r.name, d))
	h.Set("Docker-Content-Digest", string(d))
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return nil
}

// receive appends the request's body to the upload. What arrived before an
// error is kept, so that the upload can continue there.
func receive(w http.ResponseWriter, r *request, up *registry.Upload) error {
	if r.ContentLength == 0 {
		return nil
	}
	chunk, ranged, err := header.Chunk(r.Request)
	if err != nil {
		return err
	}
	src := &body{r: r.Body, left: -1}
	size := r.ContentLength
	if ranged {
		src.left, size = chunk.Length, chunk.Length
	}
	stop := interruptWhenTaken(w, up)
	_, err = up.Append(r.Context(), src, size)
	stop()
	switch {
	case errors.Is(err, registry.ErrUploadTaken), errors.Is(err, quota.ErrExceeded):
		readOn(w, r)
		return err
	case src.err != nil:
		return clientFailed(src.err)
	case err != nil:
		return err
	case src.left > 0 || src.more():
		return oci.Explain(oci.CodeSizeInvalid, "the length of the body is not that of Content-Range")
	}
	return nil
}

// body reads a request's body for an upload, up to the end of the chunk's range. It
// records read errors, which are the client's and not the storage's.
type body struct {
	r    io.Reader
	left int64 // of the range; -1 without one
	err  error
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// more reports whether the body is longer than the chunk's range.
func (b *body) more() bool {
	if b.left != 0 {
		return false
	}
	n, _ := io.ReadFull(b.r, make([]byte, 1))
	return n > 0
}

// readOnTime is the longest time that the rest of a body is read and discarded after the upload was
// taken over by another request or the body was refused.
const readOnTime = time.Second

// readOn discards the rest of a body, within bounds, so that the answer arrives: a
// client that reads only after it has sent everything would get a connection reset
// instead.
func readOn(w http.ResponseWriter, r *request) {
	if r.ContentLength == 0 || r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readOnTime))
	_, _ = io.CopyN(io.Discard, r.Body, maxUnread) // the answer is the same whatever comes
}

// interruptWhenTaken stops reading the body soon after another request has taken the
// upload over: the old connection is probably dead. The caller must call stop.
func interruptWhenTaken(w http.ResponseWriter, up *registry.Upload) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(up.Taken(), func() {
		defer close(done)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readOnTime))
	})
	return func() {
		if !cancel() {
			<-done // the connection may serve another request next
		}
	}
}
