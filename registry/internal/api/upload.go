package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
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
	up, err := a.repository(r).StartUpload(r.Context(), alg)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // the upload stays for the next request, or is done
	if digest != "" && (r.ContentLength != 0 || digest.Empty()) {
		return a.takeWhole(w, r, up, digest)
	}
	if a.opts.ChunkMinLength > 0 {
		w.Header().Set("OCI-Chunk-Min-Length", strconv.FormatInt(a.opts.ChunkMinLength, 10))
	}
	return a.answerUpload(w, r, uploadPoint{up.ID(), up.Size(), up.StartedAt()}, http.StatusAccepted)
}

// uploadDigest reads the parameters of POST that tell about the digest to
// come. A single POST without a body is taken as the begin of an upload.
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

// mountBlob tries a cross-repository mount. Whatever keeps it from being done
// is no error: the client uploads the blob instead.
func (a *API) mountBlob(w http.ResponseWriter, r *request, mount string) (done bool, err error) {
	d, from, ok := mountSource(mount, r.param("from"))
	if !ok {
		return false, nil
	}
	desc, err := a.repository(r).MountBlob(r.Context(), d, from, nil)
	switch code(err) {
	case "":
		r.event = "mount"
		return true, a.answerBlob(w, r, desc.Digest)
	case oci.CodeBlobUnknown, oci.CodeNameUnknown, oci.CodeDenied:
		return false, nil
	default:
		return false, err
	}
}

// mountSource reads the parameters of a mount. from is "" for any repository.
func mountSource(mount, from string) (d oci.Digest, name oci.Name, ok bool) {
	d, err := oci.ParseDigest(mount)
	if err == nil && from != "" {
		name, err = oci.ParseName(from)
	}
	return d, name, err == nil
}

// code is the error's code, "" for no error.
func code(err error) oci.Code {
	if err == nil {
		return ""
	}
	_, list := told(err)
	return list[0].Code
}

// takeWhole takes the blob out of the POST itself.
func (a *API) takeWhole(w http.ResponseWriter, r *request, up *registry.Upload, d oci.Digest) error {
	err := receive(w, r, up)
	if err == nil {
		_, err = up.Commit(r.Context(), d)
	}
	if err != nil {
		// The client has no URL to go on with. What cannot be removed now is
		// purged later.
		_ = up.Cancel(r.Context())
		return err
	}
	r.event = "push"
	return a.answerBlob(w, r, d)
}

// patchUpload appends a chunk, or a stream without a range.
func (a *API) patchUpload(w http.ResponseWriter, r *request) error {
	up, err := a.resume(w, r)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // the upload stays for the next request, or is done
	if err := receive(w, r, up); err != nil {
		return err
	}
	return a.answerUpload(w, r, uploadPoint{up.ID(), up.Size(), up.StartedAt()}, http.StatusAccepted)
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
	if err := receive(w, r, up); err != nil {
		return err
	}
	if _, err := up.Commit(r.Context(), d); err != nil {
		return err
	}
	return a.answerBlob(w, r, d)
}

func finalDigest(r *request) (oci.Digest, error) {
	s := r.param("digest")
	if s == "" {
		return "", oci.NewError(oci.CodeDigestInvalid, "digest missing")
	}
	return oci.ParseDigest(s)
}

// getUpload tells how far an upload has come. It does not disturb whoever
// writes to it.
func (a *API) getUpload(w http.ResponseWriter, r *request) error {
	st, err := a.repository(r).UploadStatus(r.Context(), r.last)
	if err != nil {
		return err
	}
	return a.answerUpload(w, r, uploadPoint{r.last, st.Size, st.StartedAt}, http.StatusNoContent)
}

func (a *API) deleteUpload(w http.ResponseWriter, r *request) error {
	if _, _, err := a.readState(r); err != nil {
		return err
	}
	up, err := a.repository(r).ResumeUpload(r.Context(), r.last)
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
func (a *API) readState(r *request) (st uploadState, ok bool, err error) {
	token := r.param("_state")
	if token == "" {
		return st, false, nil
	}
	st, err = a.states.read(token, r.name, r.last)
	return st, err == nil, err
}

// resume takes up the upload in the URL, from whoever may still be writing to
// it, if the request goes on where the upload stands. If it does not, the
// answer is 416 and says where that is.
func (a *API) resume(w http.ResponseWriter, r *request) (*registry.Upload, error) {
	st, stated, err := a.readState(r)
	if err != nil {
		return nil, err
	}
	chunk, ranged, err := chunkOf(r)
	if err != nil {
		return nil, err
	}
	up, err := a.repository(r).ResumeUpload(r.Context(), r.last)
	if err != nil {
		return nil, err
	}
	if stated && st.Offset != up.Size() || ranged && chunk.start != up.Size() {
		err := a.uploadHeaders(w, r, uploadPoint{up.ID(), up.Size(), up.StartedAt()})
		return nil, errors.Join(oci.NewError(oci.CodeRangeInvalid, "the upload has "+strconv.FormatInt(up.Size(), 10)+" bytes, and the request does not go on behind them"), err, up.Close())
	}
	return up, nil
}

// chunkOf reads the Content-Range of a chunk. ok is false without one, and for
// the end of an upload that brings no chunk.
func chunkOf(r *request) (chunk span, ok bool, err error) {
	header := r.Header.Get("Content-Range")
	if header == "" || r.Method == http.MethodPut && r.ContentLength == 0 {
		return span{}, false, nil
	}
	chunk, ok = parseChunk(header)
	if !ok {
		return span{}, false, oci.NewError(oci.CodeRangeInvalid, "Content-Range must be <first byte>-<last byte>")
	}
	if r.ContentLength >= 0 && r.ContentLength != chunk.length {
		return span{}, false, oci.NewError(oci.CodeSizeInvalid, "Content-Range and Content-Length differ")
	}
	return chunk, true, nil
}

// receive appends the request's body to the upload. What arrived before an
// error stays, to be gone on with.
func receive(w http.ResponseWriter, r *request, up *registry.Upload) error {
	if r.ContentLength == 0 {
		return nil
	}
	chunk, ranged, err := chunkOf(r)
	if err != nil {
		return err
	}
	src := &body{r: r.Body, left: -1}
	if ranged {
		src.left = chunk.length
	}
	stop := interruptWhenTaken(w, up)
	_, err = up.Append(r.Context(), src)
	stop()
	switch {
	case errors.Is(err, registry.ErrUploadTaken):
		return err
	case src.err != nil:
		return errClientGone
	case err != nil:
		return err
	case src.left > 0 || src.more():
		return oci.NewError(oci.CodeSizeInvalid, "the body is not as long as Content-Range says")
	}
	return nil
}

// body is a request's body on its way into an upload. It remembers whether
// reading failed, which is the client's doing and not the storage's, and gives
// no more than a chunk's range allows.
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

// more says whether the body goes on behind the chunk's range.
func (b *body) more() bool {
	if b.left != 0 {
		return false
	}
	n, _ := io.ReadFull(b.r, make([]byte, 1))
	return n > 0
}

// interruptWhenTaken ends the reading of a body once another request has taken
// the upload over: the connection it comes from is probably dead. stop ends
// the watch.
func interruptWhenTaken(w http.ResponseWriter, up *registry.Upload) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-up.Taken():
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// uploadPoint is how far an upload has come.
type uploadPoint struct {
	id        string
	size      int64
	startedAt time.Time
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
	state, err := a.states.sign(uploadState{Name: r.name, UUID: p.id, Offset: p.size, StartedAt: p.startedAt})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", a.urls.upload(r.Request, r.name, p.id, state))
	h.Set("Range", "0-"+strconv.FormatInt(max(p.size-1, 0), 10))
	h.Set("Docker-Upload-Uuid", p.id)
	return nil
}

// answerBlob answers a blob that is now there.
func (a *API) answerBlob(w http.ResponseWriter, r *request, d oci.Digest) error {
	r.digest = d
	h := w.Header()
	h.Set("Location", a.urls.blob(r.Request, r.name, d))
	h.Set("Docker-Content-Digest", string(d))
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return nil
}
