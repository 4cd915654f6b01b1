package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/shared/shares"
)

const (
	bodyTime   = 60 * time.Second // in all; the server ends transfers that stall
	memoryTime = 10 * time.Second // that a client without a valid token may take for a big body
	filesTime  = 10 * time.Minute // for a body whose files are stored while they arrive

	// Most bodies are small. Bigger ones share a bounded amount of memory, in bytes. Clients without a valid token in the
	// header or URL have an amount of their own, so they never keep senders waiting.
	bigBody        = 64 << 10
	senderMemory   = 48 << 20
	strangerMemory = 16 << 20
	shareSender    = 16 << 20 // of one application
	shareStranger  = 8 << 20  // of one address
)

// body is a request's body, of which the beginning is read.
type body struct {
	bytes.Buffer // what is read

	request *http.Request
	rest    timedReader  // what isn't
	held    *shares.Held // the memory that it has taken; nil for none
}

// share is a client's share of the memory for big bodies.
type share struct {
	memory *shares.Pool // in bytes
	client string
	within time.Duration // bounds the time that a body holds memory
}

var bodies = sync.Pool{New: func() any { return &body{} }}

// shareOf returns the share of an application, or of the request's address if app is nil.
func (a *API) shareOf(r *http.Request, app *account.App) share {
	if app == nil { // few of them hold the memory, so none may hold it for long
		return share{a.strangers, request.Network(request.Address(r, a.o.TrustedProxies)), memoryTime}
	}
	return share{a.senders, "application " + strconv.FormatInt(app.ID, 10), bodyTime}
}

// readBody reads the whole body of an authenticated user's request. The caller must release it.
func (a *API) readBody(r *http.Request) (*body, error) {
	b, err := openBody(r, a.longestBody())
	if err != nil {
		return nil, err
	}
	if err := b.readAll(share{a.senders, "users", bodyTime}, a.maxBody.Load()); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// longestBody returns the largest size of a body with files.
func (a *API) longestBody() int64 { return a.maxBody.Load() + a.service.MaxAttachments() }

// openBody reads the beginning of a body, which may have at most limit bytes. The caller must release it.
func openBody(r *http.Request, limit int64) (*body, error) {
	if r.ContentLength > limit { // before a client that asks by Expect is told to send it
		return nil, tooLarge(limit)
	}
	b := bodies.Get().(*body)
	b.request, b.rest = r, timedReader{from: http.MaxBytesReader(nil, r.Body, limit), end: time.Now().Add(bodyTime)}
	if _, err := b.ReadFrom(io.LimitReader(&b.rest, bigBody)); err != nil {
		err = b.rest.explain(err)
		b.release()
		return nil, err
	}
	return b, nil
}

// big reports whether there may be more of the body than its beginning.
func (b *body) big() bool { return b.rest.err == nil }

// take waits for memory for a big body, of which at most limit bytes are in memory. It frees what the body has taken before.
func (b *body) take(of share, limit int64) error {
	if b.request.ContentLength >= 0 {
		limit = min(limit, b.request.ContentLength)
	}
	held, err := of.memory.Take(b.request.Context(), of.client, limit)
	if err != nil {
		return &refusal.Error{Kind: refusal.KindUnavailable, Message: "Too many long messages are being received. Try again.", RetryAfter: refusal.RetryAfter, Err: err}
	}
	if b.held != nil {
		b.held.Release()
	}
	b.held, b.rest.end = held, time.Now().Add(of.within)
	return nil
}

// readAll reads a body, of at most limit bytes, into memory.
func (b *body) readAll(of share, limit int64) error {
	if b.big() && b.request.ContentLength <= limit {
		if err := b.take(of, limit); err != nil {
			return err
		}
		b.Grow(max(0, int(b.request.ContentLength)-b.Len()) + bytes.MinRead)
		if _, err := b.ReadFrom(io.LimitReader(&b.rest, limit-int64(b.Len())+1)); err != nil {
			return b.rest.explain(err)
		}
	}
	if max(b.request.ContentLength, int64(b.Len())) > limit {
		return refusal.TooLarge("", "A body may have at most limits.body,", limit)
	}
	return nil
}

// release frees the memory of a body. Its bytes must not be used after it.
func (b *body) release() {
	if b.held != nil {
		b.held.Release()
	}
	b.request, b.rest, b.held = nil, timedReader{}, nil
	if b.Cap() <= 2*bigBody {
		b.Reset()
		bodies.Put(b)
	}
}

// timedReader reads a body until a time.
type timedReader struct {
	from io.Reader
	end  time.Time
	err  error // why it has ended
}

// Read implements [io.Reader].
func (t *timedReader) Read(p []byte) (n int, err error) {
	if time.Now().After(t.end) {
		t.err = os.ErrDeadlineExceeded
		return 0, t.err
	}
	n, err = t.from.Read(p)
	if err != nil {
		t.err = err
	}
	return n, err
}

// explain returns the failure of the reader instead of the error that it caused.
func (t *timedReader) explain(err error) error {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(t.err, &large):
		return tooLarge(large.Limit)
	case errors.Is(t.err, os.ErrDeadlineExceeded):
		return &refusal.Error{Kind: refusal.KindTimeout, Message: "The body did not arrive in time."}
	case t.err != nil && !errors.Is(t.err, io.EOF):
		err = t.err
	case !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	return &refusal.Error{Kind: refusal.KindInvalid, Message: "The body could not be read completely.", Err: err}
}

func tooLarge(limit int64) error {
	return refusal.TooLarge("", "A body may have at most limits.body and limits.attachments together,", limit)
}

// decoded returns a request whose body is no longer compressed by gzip. Limits count what comes out. Other encodings are refused, except that of
// encrypted messages of Web Push, which is part of them.
func decoded(r *http.Request) (*http.Request, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity", "aes128gcm":
		return r, nil
	case "gzip", "x-gzip":
	default:
		return nil, &refusal.Error{Kind: refusal.KindMediaType, Message: fmt.Sprintf("The body has the Content-Encoding %q: send it without, or with gzip.", encoding)}
	}
	out := *r
	out.Header = r.Header.Clone()
	out.Header.Del("Content-Encoding")
	out.ContentLength = -1
	out.Body = &gunzip{from: r.Body}
	return &out, nil
}

// gunzip decompresses a body while it is read.
type gunzip struct {
	from io.ReadCloser
	z    *gzip.Reader
}

// Read implements [io.Reader].
func (g *gunzip) Read(p []byte) (n int, err error) {
	if g.z == nil {
		if g.z, err = gzip.NewReader(g.from); err != nil {
			return 0, err
		}
	}
	return g.z.Read(p)
}

// Close implements [io.Closer].
func (g *gunzip) Close() error { return g.from.Close() }
