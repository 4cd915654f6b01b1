// Package upstream is a client that pulls from another registry. Everything it receives is
// bounded in size and time. Credentials go only to the registry itself and to a token server
// that it may name, and no redirect leads into networks that only this host can reach.
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/shared/tracing"
)

// Options configures a Client.
type Options struct {
	URL         *url.URL       // scheme, host, and an optional path before /v2/
	Credentials Credentials    // nil = anonymous
	Realms      []string       // hosts of token servers that are trusted in addition to the registry's own domain
	CAs         *x509.CertPool // nil = those of the system
	Timeout     time.Duration  // of a small answer, and until a large one begins; 0 = 30 s
	Stall       time.Duration  // how long a large answer may pause; 0 = 30 s
	MinRate     int64          // bytes per second of a large answer, averaged over Stall; 0 = 1 KiB
	MaxManifest int64          // bytes, 0 = 4 MiB
	UserAgent   string
	// PrivateRedirects allows redirects to loopback, link-local, and private addresses even if
	// the registry itself has a public one.
	PrivateRedirects bool
	// Limit receives the rest of the pull limit that Docker Hub reports; may be nil.
	Limit func(remaining int)
}

const (
	defaultTimeout = 30 * time.Second
	maxConns       = 32
	maxBlobs       = maxConns * 3 / 4 // that are received at the same time: else small answers would wait for their connections
	defaultRate    = 1 << 10
	dialTimeout    = 10 * time.Second
	maxRedirects   = 5
	maxHeader      = 64 << 10
	maxErrorBody   = 64 << 10
	maxTokens      = 4096
)

// Client is one upstream registry. All methods are safe for concurrent use. It repeats a
// request only to log in, twice at most.
type Client struct {
	opts     Options
	http     *http.Client
	guard    *guard
	tokens   *cache.Cache[oci.Name, token]
	fetching cache.Group[token]
	blobs    *semaphore.Weighted
	scheme   atomic.Pointer[challenge] // the latest one that was met; nil = none yet, or it failed
}

// New makes a client. It does no I/O.
func New(o Options) *Client {
	o.Timeout, o.Stall = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.Stall, defaultTimeout)
	o.MinRate = cmp.Or(o.MinRate, defaultRate)
	o.MaxManifest = cmp.Or(o.MaxManifest, 4<<20)
	o.UserAgent = cmp.Or(o.UserAgent, "slipway")
	if o.URL == nil {
		o.URL = &url.URL{}
	}
	c := &Client{opts: o, tokens: cache.New[oci.Name, token](maxTokens), blobs: semaphore.NewWeighted(maxBlobs)}
	c.guard = &guard{
		dialer: net.Dialer{Timeout: min(dialTimeout, o.Timeout), KeepAlive: 30 * time.Second},
		own:    o.URL.Hostname(), trusted: o.Realms, off: o.PrivateRedirects,
	}
	if a, err := netip.ParseAddr(c.guard.own); err == nil {
		c.guard.seen.Store(uint32(scopeOf(a)))
	}
	c.http = &http.Client{CheckRedirect: c.redirect, Transport: tracing.Transport(&http.Transport{
		Proxy:                  c.guard.proxy,
		DialContext:            c.guard.dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.CAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    min(dialTimeout, o.Timeout),
		ResponseHeaderTimeout:  o.Timeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // the digest is that of the bytes as sent
		ForceAttemptHTTP2:      true,
	})}
	return c
}

// URL returns Options.URL.
func (c *Client) URL() *url.URL { return c.opts.URL }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// redirect follows to other hosts, where blobs often are, without credentials. It never goes
// from https to http, or into networks that the guard closes.
func (c *Client) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return fmt.Errorf("refused a redirect from https to %s", next.URL.Scheme)
	}
	if err := c.guard.checkURL(next.URL); err != nil {
		return err
	}
	if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	next.Header.Del("Referer") // may hold a signature
	return nil
}

// ask sends one request about a repository, or about the registry if name is "", and logs in
// if the registry asks for it. Any status but 2xx is an *Error.
//
// A remembered challenge saves a request, but only the registry's present one counts. If the
// remembered one leads nowhere, ask forgets it and starts over.
func (c *Client) ask(ctx context.Context, method string, name oci.Name, to *url.URL, header http.Header) (*http.Response, error) {
	known := c.scheme.Load()
	var refusal error // of a login that the known challenge led to just now
	if known != nil {
		login, fresh, err := c.authorization(ctx, known, name, false)
		if err == nil {
			var resp *http.Response
			resp, err = c.send(ctx, method, to, header, login)
			if err = c.outcome(known, err); err == nil || !refusesLogin(err) {
				return resp, err
			}
		}
		c.tokens.Forget(name)
		if fresh {
			if now, bad := c.challenged(err); bad == nil && known.same(now) {
				return nil, err
			}
			refusal = err
		}
		c.scheme.CompareAndSwap(known, nil)
	}
	resp, err := c.send(ctx, method, to, header, "")
	now, bad := c.challenged(err)
	switch {
	case bad != nil:
		return nil, bad
	case now == nil || now.basic && c.opts.Credentials == nil:
		return resp, err
	case known.same(now):
		if c.scheme.CompareAndSwap(nil, known); refusal != nil {
			return nil, refusal
		}
	}
	login, _, err := c.authorization(ctx, now, name, true)
	if err != nil {
		return nil, err
	}
	resp, err = c.send(ctx, method, to, header, login)
	if err = c.outcome(now, err); err == nil || ReasonOf(err) == NotFound {
		c.scheme.Store(now)
	}
	return resp, err
}

// send sends one request with an Authorization header, unless that is "".
func (c *Client) send(ctx context.Context, method string, to *url.URL, header http.Header, login string) (*http.Response, error) {
	req, err := c.request(ctx, method, to)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if login != "" {
		req.Header.Set("Authorization", login)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // the caller or refused closes it
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	c.noteLimit(resp.Header)
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	failure := c.refused(resp)
	if failure.own = resp.Request.URL.Host == c.opts.URL.Host; failure.own {
		failure.challenges = resp.Header.Values("WWW-Authenticate")
	}
	return nil, failure
}

// refusesLogin reports whether the registry itself answered with one of the statuses with which
// registries refuse a login. A server that it redirects to never got the login.
func refusesLogin(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.own && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest)
}

// outcome returns err as the result of a request with the login that the challenge asks for.
func (c *Client) outcome(ch *challenge, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && ch.basic && e.own && e.Status == http.StatusUnauthorized {
		e.Reason = Login // a token may just not cover the repository
		c.opts.Credentials.Refused()
	}
	return err
}

func (c *Client) request(ctx context.Context, method string, to *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(watch(ctx), method, to.String(), nil)
	if err != nil {
		return nil, &Error{Reason: Invalid, Err: err}
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	return req, nil
}

// noteLimit reads "76;w=21600".
func (c *Client) noteLimit(h http.Header) {
	left, _, _ := strings.Cut(h.Get("RateLimit-Remaining"), ";")
	if n, err := strconv.Atoi(strings.TrimSpace(left)); err == nil && c.opts.Limit != nil {
		c.opts.Limit(n)
	}
}

// at is the URL of a path below /v2/.
func (c *Client) at(path string) *url.URL {
	u := *c.opts.URL
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v2/" + path
	return &u
}

// Ping checks that the registry answers and, if there is a login, accepts it.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var resp *http.Response
	var err error
	if c.opts.Credentials == nil {
		resp, err = c.send(ctx, http.MethodGet, c.at(""), nil, "") //nolint:bodyclose // drain closes it
	} else {
		resp, err = c.ask(ctx, http.MethodGet, "", c.at(""), nil) //nolint:bodyclose // drain closes it
	}
	if err == nil {
		drain(resp.Body)
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == Denied && e.Status == http.StatusUnauthorized {
		return nil // it asks for a login, or the token server took it and the registry wants a token for a repository
	}
	return err
}

// drain reads the rest of a small body, so that its connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxErrorBody) // on failure the connection is closed
	_ = body.Close()
}

// read reads a small body to its end.
func read(body io.ReadCloser, limit int64) ([]byte, error) {
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, &Error{Reason: Down, Err: err}
	}
	if int64(len(b)) > limit {
		return nil, invalidAnswer("an answer has more than %d bytes", limit)
	}
	return b, nil
}
