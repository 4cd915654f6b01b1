package matrix

import (
	"context"
	"encoding/json"
	"errors"
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
	in      any    // JSON body; nil for none
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

// do makes the request as it is.
func (c *Client) do(ctx context.Context, api *mautrix.Client, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	answer, resp, err := api.MakeFullRequestWithResp(ctx, r.full(api)) //nolint:bodyclose // read and closed by the library
	switch {
	case err != nil && resp != nil && (resp.StatusCode < 200 || resp.StatusCode > 299):
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

// full is the request as the library wants it.
func (r request) full(api *mautrix.Client) mautrix.FullRequest {
	full := mautrix.FullRequest{
		Method:            r.method,
		RequestJSON:       r.in,
		RequestBytes:      r.raw,
		SensitiveContent:  true,
		ResponseSizeLimit: r.limit,
		Headers:           http.Header{},
	}
	full.URL = api.BuildURLWithFullQuery(r.path, func(q url.Values) {
		for key, values := range r.query {
			q[key] = values
		}
	})
	if full.ResponseSizeLimit == 0 {
		full.ResponseSizeLimit = maxAnswer
	}
	if r.raw != nil {
		full.Headers["Content-Type"] = []string{"application/json"}
		if r.kind != "" {
			full.Headers["Content-Type"] = []string{r.kind}
		}
	}
	if r.repeats {
		// Present but empty: the transport may repeat the request, the header is not sent.
		full.Headers["X-Idempotency-Key"] = nil
	}
	return full
}

const userAgent = "slipway-relay"
