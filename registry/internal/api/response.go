package api

import (
	"io"
	"net/http"
)

// response is the ResponseWriter of one request. It notes what was answered,
// for logs and metrics, and hides nothing of the writer below: a copy that
// comes as ReadFrom goes on as ReadFrom, so that the kernel sends files.
type response struct {
	http.ResponseWriter
	status  int   // 0 until the answer has begun
	written int64 // bytes of the body
}

// WriteHeader notes the status and begins the answer.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the body's bytes.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// ReadFrom counts the body's bytes and leaves the copying to net/http, which
// has the kernel do it where src is a file.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := io.Copy(w.ResponseWriter, src)
	w.written += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begun says whether the client has seen a status, so that it is too late for
// another.
func (w *response) begun() bool { return w.status != 0 }
