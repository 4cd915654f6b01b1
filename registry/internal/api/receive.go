package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"slipway/registry/internal/api/header"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
)

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
		return oci.NewError(oci.CodeSizeInvalid, "the length of the body is not that of Content-Range")
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

// more reports whether the body goes on behind the chunk's range.
func (b *body) more() bool {
	if b.left != 0 {
		return false
	}
	n, _ := io.ReadFull(b.r, make([]byte, 1))
	return n > 0
}

// readOnTime is how long a client that has lost its upload to another request, or
// sends what does not belong there, may go on sending before it is answered.
const readOnTime = time.Second

// readOn reads the rest of a body for nothing, within bounds, so that the answer
// arrives: a client that sends all before it reads gets a reset instead if the
// connection is closed over bytes on their way.
func readOn(w http.ResponseWriter, r *request) {
	if r.ContentLength == 0 || r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readOnTime))
	_, _ = io.CopyN(io.Discard, r.Body, maxUnread) // the answer is the same whatever comes
}

// interruptWhenTaken ends the reading of a body soon after another request has taken
// the upload over: the connection it comes from is probably dead. stop ends
// the watch.
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
