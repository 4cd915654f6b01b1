package matrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"
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
	path    mautrix.PrefixableURLPath
	query   url.Values
	in      any    // JSON body; nil for an empty object
	raw     []byte // body as it is, instead of in
	kind    string // content type of raw; "" is JSON
	limit   int64  // of the answer; 0 means maxAnswer
	repeats bool   // a repetition does no harm, so a broken idle connection may be retried at once
}

// v3 is a path of the client-server API. Each part may hold any character.
func v3(parts ...any) mautrix.ClientURLPath { return append(mautrix.ClientURLPath{"v3"}, parts...) }

// newHTTPClient follows no redirect, which would carry the token, and keeps no cookies.
func newHTTPClient(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// api is the library's client for a token ("" for none). It retries nothing by
// itself and logs nothing: a request may hold a password or a text.
func (c *Client) api(userID, token string) *mautrix.Client {
	return &mautrix.Client{
		HomeserverURL:   c.base,
		UserID:          id.UserID(userID),
		AccessToken:     token,
		UserAgent:       userAgent,
		Client:          c.http,
		Log:             zerolog.Nop(),
		IgnoreRateLimit: true,

		ResponseSizeLimit: maxAnswer, // of what the library asks by itself
	}
}

// call makes the request with the session's token and decodes the answer into out
// (nil to drop it). Failures are [*SendError]s.
func (c *Client) call(ctx context.Context, r request, out any) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	err = c.do(ctx, s.api, r, out)
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassRelogin {
		c.expire(s, failed)
	}
	return err
}

// do makes the request as it is, over the transport itself: the library prepares lines of a log that nobody reads, which
// costs more CPU than all else here.
func (c *Client) do(ctx context.Context, api *mautrix.Client, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	req, err := c.newRequest(ctx, api.AccessToken, r)
	if err != nil {
		return failedRequest(err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return failedRequest(err)
	}
	defer resp.Body.Close()
	answer, err := readAnswer(resp, r.limit)
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return refused(resp.StatusCode, resp.Header, answer)
	case err != nil:
		return failedRequest(err)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return notJSON(resp.StatusCode, answer, err)
	}
	return nil
}

// newRequest is the request as HTTP wants it. One that changes something has a body, if only an empty object.
func (c *Client) newRequest(ctx context.Context, token string, r request) (*http.Request, error) {
	body, kind := r.raw, cmp.Or(r.kind, "application/json")
	if body == nil && r.method != http.MethodGet {
		if r.in == nil {
			r.in = struct{}{}
		}
		var err error
		if body, err = json.Marshal(r.in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL = mautrix.BuildURL(c.base, r.path.FullPath()...)
	req.URL.RawQuery = r.query.Encode()
	req.Host = req.URL.Host
	req.Header["User-Agent"] = []string{userAgent}
	if body != nil {
		req.Header["Content-Type"] = []string{kind}
	}
	if token != "" {
		req.Header["Authorization"] = []string{"Bearer " + token}
	}
	if r.repeats {
		// Present but empty: the transport may repeat the request, the header is not sent.
		req.Header["X-Idempotency-Key"] = nil
	}
	return req, nil
}

var errLongAnswer = errors.New("the answer is too long")

// readAnswer reads what was answered, up to a limit (0 means maxAnswer).
func readAnswer(resp *http.Response, limit int64) ([]byte, error) {
	limit = cmp.Or(limit, maxAnswer)
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(answer)) > limit {
		return nil, errLongAnswer
	}
	return answer, err
}

const userAgent = "slipway-relay"
