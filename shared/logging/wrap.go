package logging

import (
	"net/http"
	"runtime/debug"

	"go.uber.org/zap"

	"slipway/shared/tracing"
)

// Options describes what Wrap does around a handler.
type Options struct {
	Log *zap.Logger // where a panic goes; required

	// IDs numbers the requests; nil starts a series of its own.
	IDs *RequestIDs

	// Access, if not nil, gets a line for each request.
	Access *AccessLog

	// Done, if not nil, is called after each request, also after one that
	// panicked: for metrics and the request's line in the log.
	Done func(*Recorder, *http.Request)

	// Panicked answers a request whose handler panicked before it began its
	// answer; nil sends a bare 500.
	Panicked func(http.ResponseWriter, *http.Request)
}

// Wrap returns the outermost handler of a service: it hands a *Recorder to
// next, recovers from panics, and calls for the logs. A panic after the answer
// began, and http.ErrAbortHandler at any time, break the connection, so that a
// client never takes a cut answer for a whole one.
func Wrap(next http.Handler, o Options) http.Handler {
	if o.IDs == nil {
		o.IDs = NewRequestIDs()
	}
	if o.Panicked == nil {
		o.Panicked = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	}
	return &wrapper{next: next, o: o}
}

type wrapper struct {
	next http.Handler
	o    Options
}

// ServeHTTP implements http.Handler.
func (h *wrapper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, span := tracing.Request(r)
	rec := newRecorder(w, r, h.o.IDs)
	returned := false
	defer func() {
		var cause any
		if !returned {
			cause = recover()
		}
		abort := cause != nil && h.panicked(rec, r, cause)
		h.finish(rec, r)
		if abort {
			tracing.End(span, http.ErrAbortHandler)
			panic(http.ErrAbortHandler)
		}
		tracing.Answered(span, rec.Status(), rec.bytes, rec.ID)
		if returned {
			rec.release()
		}
	}()
	h.next.ServeHTTP(rec, r)
	returned = true
}

// panicked handles what a handler threw and reports whether the connection has to
// be broken.
func (h *wrapper) panicked(rec *Recorder, r *http.Request, cause any) bool {
	if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
		return true
	}
	h.o.Log.Error("a handler panicked",
		zap.String("request", rec.ID()), zap.String("method", r.Method),
		zap.String("uri", RedactURI(r.RequestURI)), zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
	if rec.Began() {
		return true
	}
	h.o.Panicked(rec, r)
	return false
}

func (h *wrapper) finish(rec *Recorder, r *http.Request) {
	if h.o.Access != nil {
		h.o.Access.write(rec, r)
	}
	if h.o.Done != nil {
		h.o.Done(rec, r)
	}
}
