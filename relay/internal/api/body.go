package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"slipway/relay/internal/refusal"
)

const (
	firstRead = 2 << 10
	bodyTime  = 60 * time.Second // in all; the server ends transfers that stall

	// Most bodies are small. Only a few large ones are held in memory at a time,
	// because their senders are not authenticated yet.
	bigBody   = 64 << 10
	bigBodies = 16
)

// body is a request's body, read whole.
type body struct {
	bytes []byte
	big   chan struct{} // where a place is taken, nil if none is
}

// bodies are reused.
var bodies = sync.Pool{New: func() any { return &body{bytes: make([]byte, 0, firstRead)} }}

// release returns the body to the pool. Nothing may point into it any more.
func (b *body) release() {
	if b.big != nil {
		<-b.big
		return // too large to keep
	}
	b.bytes = b.bytes[:0]
	bodies.Put(b)
}

// readBody reads the whole body into a buffer that grows with the bytes received,
// not with Content-Length. The caller releases it.
func (a *API) readBody(r *http.Request) (*body, error) {
	if r.ContentLength > a.o.MaxBody {
		return nil, refusal.TooLarge("", "A body may have at most", a.o.MaxBody)
	}
	b := bodies.Get().(*body)
	if err := a.fill(b, r); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (a *API) fill(b *body, r *http.Request) error {
	for began := time.Now(); ; {
		if len(b.bytes) == cap(b.bytes) {
			if err := a.grow(r.Context(), b); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > a.o.MaxBody:
			return refusal.TooLarge("", "A body may have at most", a.o.MaxBody)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err)
		case time.Since(began) > bodyTime:
			return unreadable(os.ErrDeadlineExceeded)
		}
	}
}

// grow enlarges the buffer. A body that becomes big waits for one of the places.
func (a *API) grow(ctx context.Context, b *body) error {
	if len(b.bytes) >= bigBody && b.big == nil {
		select {
		case a.big <- struct{}{}:
			b.big = a.big
		case <-ctx.Done():
			return &refusal.Error{Kind: refusal.KindUnavailable, Message: "Too many long messages are being received. Try again.", RetryAfter: defaultRetryAfter, Err: ctx.Err()}
		}
	}
	b.bytes = append(b.bytes, 0)[:len(b.bytes)]
	return nil
}

func unreadable(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &statusError{http.StatusRequestTimeout, "timeout", "The body did not arrive in time."}
	}
	return &refusal.Error{Kind: refusal.KindInvalid, Message: "The body could not be read completely.", Err: err}
}
