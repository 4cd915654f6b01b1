// Package rest holds what drivers share that speak to an object store by requests of
// their own: connections, the store's clock, and what a failure means.
package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"slipway/registry/internal/retryafter"
	"slipway/registry/internal/storage/object"
)

// NewClient returns a client that follows no redirect, repeats nothing and decodes
// nothing. Contexts bound its requests. skipVerify accepts any certificate.
func NewClient(skipVerify bool) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipVerify}, //nolint:gosec // the operator asked for it
			ForceAttemptHTTP2:   false,
			TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // one connection would carry all bodies
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}
}

// Failed describes what it means that a request got no answer.
func Failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		err = withURL.Err // the URL may hold a signature
	}
	effect := object.Lost
	var connect *net.OpError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &connect) && connect.Op == "dial" || errors.As(err, &certificate) {
		effect = object.Refused
	}
	return &object.Trouble{Err: err, Effect: effect}
}

// Status describes what an answer means that the store may give differently another time;
// nil if it would not. err is its cause.
func Status(resp *http.Response, err error) error {
	t := &object.Trouble{Err: err, After: retryafter.Wait(resp.Header, time.Now(), time.Hour)}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout:
		t.Effect = object.Refused
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		t.Effect = object.Doubtful
		if resp.StatusCode != http.StatusInternalServerError {
			t.Effect = object.Lost // a proxy gave up; the store has the request
		}
	default:
		return nil
	}
	return t
}

type expireKey struct{}

// Expiring is ctx for a request that must not take effect late: it is signed with an expiry.
func Expiring(ctx context.Context) context.Context { return context.WithValue(ctx, expireKey{}, true) }

// Expires reports whether the request of ctx must expire.
func Expires(ctx context.Context) bool { return ctx.Value(expireKey{}) != nil }

// maxAnswer bounds what is read of an answer that is not an object.
const maxAnswer = 32 << 20

// Answer reads an answer that is no object and closes it. An error is one of Failed.
func Answer(ctx context.Context, resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, Failed(ctx, err)
	}
	if len(content) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return content, nil
}

// Drop reads the rest of a small answer, so that the connection can be used again, and
// closes it.
func Drop(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}

// Clock knows how far the store's clock is from ours. Its zero value knows nothing.
type Clock struct{ offset atomic.Int64 }

// Observe takes the time from an answer and returns it, the zero time if there is none.
func (c *Clock) Observe(resp *http.Response) time.Time {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	c.offset.Store(int64(time.Until(t)))
	return t
}

// Now is the store's time, about.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Sent is the store's time, about, when it was decided to send the request of ctx.
func (c *Clock) Sent(ctx context.Context) time.Time { return object.Sent(ctx).Add(c.Offset()) }

// Offset returns the time by which the store's clock is ahead of this process's.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Content is the part of a body that a request sends.
func Content(b object.Body) io.ReadCloser {
	if b.Size == 0 {
		return http.NoBody
	}
	return io.NopCloser(io.NewSectionReader(b.Content, 0, b.Size))
}

// Set describes how far the store's clock is ahead of ours.
func (c *Clock) Set(offset time.Duration) { c.offset.Store(int64(offset)) }
