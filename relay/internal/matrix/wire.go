package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/relay/internal/relay"
)

// maxAnswer bounds what is read of an answer; a sync of many rooms is the largest.
const (
	maxAnswer     = 64 << 20
	maxSendAnswer = 64 << 10
)

// newTransport keeps a connection for each room that is sent to at the same time,
// and notices a dead one.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true, // answers are small
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// request is one call of the client-server API.
type request struct {
	method  string
	path    string // behind the base URL, segments joined by segments()
	query   url.Values
	in      any    // JSON body; nil for none
	raw     []byte // body as it is, instead of in
	kind    string // content type of raw; "" is JSON
	token   string // access token; "" for none
	limit   int64  // of the answer; 0 means maxAnswer
	repeats bool   // a repetition does no harm, so a broken idle connection may be retried at once
}

const (
	clientAPI = "/_matrix/client/v3"
	mediaAPI  = "/_matrix/media/v3"
)

// segments joins a path of which each part may hold any character.
func segments(prefix string, parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// call makes the request with the session's token and decodes the answer into out
// (nil to drop it). Failures are [*relay.SendError]s.
func (c *Client) call(ctx context.Context, r request, out any) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	r.token = s.token
	err = c.do(ctx, r, out)
	var failed *relay.SendError
	if errors.As(err, &failed) && failed.Class == relay.ClassRelogin {
		c.expire(s, failed)
	}
	return err
}

// do makes the request as it is.
func (c *Client) do(ctx context.Context, r request, out any) error {
	body, err := r.body()
	if err != nil {
		return &relay.SendError{Class: relay.ClassDead, Reason: "the request cannot be encoded", Err: err}
	}
	status, header, answer, err := c.roundTrip(ctx, r, body)
	if err != nil {
		return failedRequest(err)
	}
	if status < 200 || status > 299 {
		return refused(status, header, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return notJSON(status, answer, err)
	}
	return nil
}

func (r request) body() ([]byte, error) {
	if r.in == nil {
		return r.raw, nil
	}
	return json.Marshal(r.in)
}

// roundTrip goes to the transport and past http.Client: no cookies, no redirects
// to follow with a token in hand.
func (c *Client) roundTrip(ctx context.Context, r request, body []byte) (int, http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	resp, err := c.transport.RoundTrip(c.httpRequest(r, body).WithContext(ctx))
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	limit := r.limit
	if limit == 0 {
		limit = maxAnswer
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return 0, nil, nil, err
	}
	return resp.StatusCode, resp.Header, answer, nil
}

func (c *Client) httpRequest(r request, body []byte) *http.Request {
	u := *c.base
	u.RawPath = u.EscapedPath() + r.path
	// The parts were escaped by segments, so this cannot fail.
	u.Path, _ = url.PathUnescape(u.RawPath)
	u.RawQuery = r.query.Encode()
	req := &http.Request{
		Method: r.method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": userAgent},
	}
	if r.token != "" {
		req.Header["Authorization"] = []string{"Bearer " + r.token}
	}
	if r.repeats {
		// Present but empty: the transport may repeat the request, the header is not sent.
		req.Header["X-Idempotency-Key"] = nil
	}
	if body != nil {
		kind := r.kind
		if kind == "" {
			kind = "application/json"
		}
		req.Header["Content-Type"] = []string{kind}
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return req
}

var userAgent = []string{"slipway-relay"}
