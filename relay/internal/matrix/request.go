package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"

	"slipway/shared/tracing"
)

// Bounds of an answer in bytes.
const (
	maxAnswer     = 1 << 20
	maxSendAnswer = 64 << 10
	maxListAnswer = 8 << 20  // the 10,000 members of a room, 100 events
	maxKeysAnswer = 16 << 20 // the devices of a room
	maxSyncAnswer = 64 << 20 // all rooms
	maxHeader     = 256 << 10
)

// newTransport returns a transport that keeps a connection for each room that is sent to at the same time, and notices dead
// ones.
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

		MaxResponseHeaderBytes: maxHeader,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// request is one call of the client-server API.
type request struct {
	method  string
	path    mautrix.PrefixableURLPath
	query   url.Values
	in      any       // JSON body; nil for an empty object
	raw     []byte    // body, instead of in
	file    io.Reader // body, instead of in
	size    int64     // of file in bytes
	kind    string    // content type of raw and file; "" means JSON
	limit   int64     // of the answer in bytes; 0 means maxAnswer
	repeats bool      // idempotent: net/http may retry it on a broken idle connection
}

// v3 returns a path of the client-server API. Parts may hold any character.
func v3(parts ...any) mautrix.ClientURLPath { return append(mautrix.ClientURLPath{"v3"}, parts...) }

// newHTTPClient returns a client that follows no redirects, because those would carry the token.
func newHTTPClient(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     tracing.Transport(transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// api returns mautrix's client for a token ("" for none). It logs nothing, because requests hold passwords and messages.
func (c *Client) api(userID, token string) *mautrix.Client {
	return &mautrix.Client{
		HomeserverURL:   c.base,
		UserID:          id.UserID(userID),
		AccessToken:     token,
		UserAgent:       userAgent,
		Client:          c.http,
		Log:             zerolog.Nop(),
		IgnoreRateLimit: true, // the caller waits

		ResponseSizeLimit: maxKeysAnswer, // do has its own
	}
}

// call sends a request with the session's token and decodes the answer into out unless that is nil. Its errors are
// [*SendError]s.
func (c *Client) call(ctx context.Context, r request, out any) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	err = c.do(ctx, s.api, r, out)
	if hasClass(err, ClassRelogin) {
		c.expire(s, err)
	}
	return err
}

// do sends a request once.
func (c *Client) do(ctx context.Context, api *mautrix.Client, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout+time.Duration(r.size/uploadPace)*time.Second)
	defer cancel()
	headers := http.Header{"User-Agent": {userAgent}}
	if r.raw != nil || r.file != nil {
		headers["Content-Type"] = []string{cmp.Or(r.kind, "application/json")}
	}
	if r.repeats {
		headers["X-Idempotency-Key"] = nil // tells net/http, and is not sent
	}
	answer, resp, err := api.MakeFullRequestWithResp(ctx, mautrix.FullRequest{ //nolint:bodyclose // mautrix closes it
		Method: r.method, URL: api.BuildURLWithFullQuery(r.path, func(q url.Values) { maps.Copy(q, r.query) }), Headers: headers,
		RequestJSON: r.in, RequestBytes: r.raw, RequestBody: r.file, RequestLength: r.size, SensitiveContent: true, MaxAttempts: 1, ResponseSizeLimit: cmp.Or(r.limit, maxAnswer), Handler: readAnswer,
	})
	var request *url.Error
	switch {
	case resp != nil && (resp.StatusCode < 200 || resp.StatusCode > 299):
		return refused(resp.StatusCode, resp.Header, answer)
	case errors.As(err, &request):
		return failedRequest(request.Err)
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

var errAnswerTooLong = errors.New("the answer is too long")

// readAnswer reads an answer of at most limit bytes. An endless one costs no more memory than that: unlike io.ReadAll, it copies nothing
// while it grows.
func readAnswer(_ *http.Request, res *http.Response, _ any, limit int64) ([]byte, error) {
	const most = 1 << 20
	var parts [][]byte
	total := int64(0)
	for part := make([]byte, 0, 512); ; {
		n, err := res.Body.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		total += int64(n)
		switch {
		case total > limit:
			return nil, fmt.Errorf("%w: more than %d bytes", errAnswerTooLong, limit)
		case errors.Is(err, io.EOF) && len(parts) == 0:
			return part, nil
		case errors.Is(err, io.EOF):
			return slices.Concat(append(parts, part)...), nil
		case err != nil:
			return nil, err
		}
		if len(part) == cap(part) {
			parts = append(parts, part)
			part = make([]byte, 0, min(2*cap(part), most))
		}
	}
}

const userAgent = "slipway-relay"
