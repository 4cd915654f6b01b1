package logging

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Recorder is the ResponseWriter that Wrap hands down. It remembers status and
// size of the answer and carries what the log says of the request. ReadFrom is
// forwarded, so that a file still leaves by sendfile; http.ResponseController
// finds everything else through Unwrap. It may not be used once the handler
// has returned.
type Recorder struct {
	w       http.ResponseWriter
	from    io.ReaderFrom // w, if it can
	ids     *RequestIDs
	request *http.Request
	id      string
	user    string
	began   time.Time
	bytes   int64
	status  int
}

var recorders = sync.Pool{New: func() any { return new(Recorder) }}

func newRecorder(w http.ResponseWriter, r *http.Request, ids *RequestIDs) *Recorder {
	rec := recorders.Get().(*Recorder)
	from, _ := w.(io.ReaderFrom)
	*rec = Recorder{w: w, from: from, ids: ids, request: r, began: time.Now()}
	return rec
}

func (r *Recorder) release() {
	*r = Recorder{}
	recorders.Put(r)
}

// RecorderOf finds the Recorder behind w, through wrappers that have Unwrap.
// It is nil if there is none.
func RecorderOf(w http.ResponseWriter) *Recorder {
	for {
		if r, ok := w.(*Recorder); ok {
			return r
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
}

// RequestID is the id of the request that w answers, "" without a Recorder. It
// is made when first asked for, so that a request that isn't logged costs none.
func RequestID(w http.ResponseWriter) string {
	if r := RecorderOf(w); r != nil {
		return r.ID()
	}
	return ""
}

// ID is the id of the request.
func (r *Recorder) ID() string {
	if r.id == "" {
		r.id = r.ids.of(r.request)
	}
	return r.id
}

// SetUser names who asked, for the access log.
func (r *Recorder) SetUser(name string) { r.user = name }

// User returns the argument of the last SetUser.
func (r *Recorder) User() string { return r.user }

// Began reports whether the status line is sent, so that an error can no longer be
// told to the client.
func (r *Recorder) Began() bool { return r.status != 0 }

// Status is the status sent; 200 if the handler ended without sending one.
func (r *Recorder) Status() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// Bytes is the size of the body sent so far.
func (r *Recorder) Bytes() int64 { return r.bytes }

// Elapsed is the time since the request came in.
func (r *Recorder) Elapsed() time.Duration { return time.Since(r.began) }

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.w.Header() }

// WriteHeader implements http.ResponseWriter. Informational answers do not
// count as the status.
func (r *Recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.w.WriteHeader(status)
}

// Write implements io.Writer.
func (r *Recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.w.Write(p)
	r.bytes += int64(n)
	return n, err
}

// WriteString implements io.StringWriter.
func (r *Recorder) WriteString(s string) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := io.WriteString(r.w, s)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (r *Recorder) ReadFrom(src io.Reader) (n int64, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.from != nil {
		n, err = r.from.ReadFrom(src)
	} else {
		n, err = io.Copy(struct{ io.Writer }{r.w}, src)
	}
	r.bytes += n
	return n, err
}

// Flush implements http.Flusher.
func (r *Recorder) Flush() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_ = http.NewResponseController(r.w).Flush() // a writer that cannot has nothing to flush
}

// Unwrap lets http.ResponseController reach the writer behind: deadlines,
// Hijack and full duplex.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.w }
