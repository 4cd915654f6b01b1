package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

const (
	firstRead = 2 << 10
	bodyTime  = 60 * time.Second // in all; the server ends transfers that stall
	placeTime = 10 * time.Second // that a client without a valid token may take for a big body

	// Most bodies are small. Only a few large ones are in memory at a time. Clients without a valid token in the
	// header or URL have places of their own, so they never keep senders waiting.
	bigBody       = 64 << 10
	bigSenders    = 16
	bigStrangers  = 8
	shareSender   = 4 // of one application
	shareStranger = 2 // of one address
)

// body is a request's body, read whole.
type body struct {
	bytes   []byte
	more    bool   // bytes is only the beginning, because the body may hold files
	release func() // frees the place; bytes must not be used after it
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

// reader reads bodies for one client.
type reader struct {
	max    int64 // bytes
	places *request.Places
	client string                  // the places are divided among clients
	within time.Duration           // bounds the time that a body holds a place
	files  func(start []byte) bool // reports whether a big body may hold files; nil for never
}

// readerFor returns the reader of a client that has authenticated.
func (a *API) readerFor(client string) reader {
	return reader{max: a.maxBody.Load(), places: a.big, client: client, within: bodyTime}
}

// strangers reads bodies of clients that are not authenticated. Few of them hold the places, so none may hold one for long.
func (a *API) strangers(r *http.Request) reader {
	return reader{max: a.maxBody.Load(), places: a.bigStranger, client: request.Network(request.Address(r, a.o.TrustedProxies)), within: placeTime}
}

// read reads the whole body into a buffer that grows with the bytes received, not with Content-Length. The caller
// must release it.
func (rd reader) read(r *http.Request) (*body, error) {
	if r.ContentLength > rd.max && rd.files == nil {
		return nil, refusal.TooLarge("", "A body may have at most", rd.max)
	}
	buffer := buffers.Get().(*[]byte)
	b := &body{bytes: (*buffer)[:0], release: func() { buffers.Put(buffer) }}
	if err := rd.fill(b, r); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (rd reader) fill(b *body, r *http.Request) error {
	big := false
	for end := time.Now().Add(bodyTime); ; {
		if len(b.bytes) == cap(b.bytes) {
			if len(b.bytes) >= bigBody && !big && rd.files != nil && rd.files(b.bytes) {
				b.more = true
				return nil
			}
			if len(b.bytes) >= bigBody && !big {
				big = true
				if err := rd.takePlace(b, r); err != nil {
					return err
				}
				end = time.Now().Add(rd.within)
			}
			b.bytes = append(b.bytes, 0)[:len(b.bytes)]
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > rd.max && !big && rd.files != nil && rd.files(b.bytes):
			b.more = true
			return nil
		case int64(len(b.bytes)) > rd.max:
			return refusal.TooLarge("", "A body may have at most", rd.max)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err)
		case time.Now().After(end):
			return unreadable(os.ErrDeadlineExceeded)
		}
	}
}

// takePlace waits for a place for a body that grew large. The body holds the place until its release.
func (rd reader) takePlace(b *body, r *http.Request) error {
	release, err := rd.places.Take(r.Context(), rd.client)
	if err != nil {
		return placesTaken(err)
	}
	back := b.release
	b.release = func() {
		release()
		back()
	}
	return nil
}

func placesTaken(err error) error {
	return &refusal.Error{Kind: refusal.KindUnavailable, Message: "Too many long messages are being received. Try again.", RetryAfter: refusal.RetryAfter, Err: err}
}

func unreadable(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal.Error{Kind: refusal.KindTimeout, Message: "The body did not arrive in time."}
	}
	return &refusal.Error{Kind: refusal.KindInvalid, Message: "The body could not be read completely.", Err: err}
}
