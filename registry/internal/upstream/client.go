// Package upstream is the client of another registry: it pulls, and nothing
// else. Everything that comes from there is bounded in size and time, and
// credentials go to nobody but the registry itself and a realm that it may name.
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
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"slipway/registry/internal/oci"
)

// Options says which registry, and how much of it is put up with.
type Options struct {
	URL         *url.URL       // scheme, host and perhaps a path in front of /v2/
	Credentials Credentials    // nil = anonymous
	Realms      []string       // hosts of token servers that are trusted beside the registry's own domain
	CAs         *x509.CertPool // nil = those of the system
	MaxConns    int            // connections at the same time, 0 = 32
	Timeout     time.Duration  // of an answer that is small, and until a large one begins; 0 = 30 s
	Stall       time.Duration  // how long a large answer may pause; 0 = 30 s
	MinRate     int64          // bytes a second of a large answer, over Stall; 0 = 1 KiB
	MaxManifest int64          // bytes, 0 = 4 MiB
	UserAgent   string
	// Limit is told what a Docker Hub says is left of its limit; nil = nobody.
	Limit func(remaining int)
}

const (
	defaultTimeout = 30 * time.Second
	defaultConns   = 32
	defaultRate    = 1 << 10
	dialTimeout    = 10 * time.Second
	maxRedirects   = 5
	maxHeader      = 64 << 10
	maxErrorBody   = 64 << 10
)

// Client is one upstream registry. All methods are safe for concurrent use;
// none tries again what has failed, except for a login.
type Client struct {
	opts   Options
	http   *http.Client
	tokens tokens
	scheme atomic.Pointer[challenge] // what the registry last asked for; nil = nothing yet
}

// New makes a client. It does no I/O.
func New(o Options) *Client {
	o.Timeout, o.Stall = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.Stall, defaultTimeout)
	o.MaxConns = cmp.Or(o.MaxConns, defaultConns)
	o.MinRate = cmp.Or(o.MinRate, defaultRate)
	o.MaxManifest = cmp.Or(o.MaxManifest, 4<<20)
	o.UserAgent = cmp.Or(o.UserAgent, "slipway")
	c := &Client{opts: o}
	c.http = &http.Client{CheckRedirect: c.redirect, Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: min(dialTimeout, o.Timeout), KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.CAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    min(dialTimeout, o.Timeout),
		ResponseHeaderTimeout:  o.Timeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        o.MaxConns,
		MaxIdleConnsPerHost:    o.MaxConns,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // bytes are those of a digest
		ForceAttemptHTTP2:      true,
	}}
	return c
}

// Host names the registry.
func (c *Client) Host() string { return c.opts.URL.Host }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// redirect follows to other hosts, where blobs often are, without credentials, and
// never from https to http.
func (c *Client) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return fmt.Errorf("refused a redirect from https to %s", next.URL.Scheme)
	}
	if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	next.Header.Del("Referer") // may hold a signature
	return nil
}

// ask does one request about a repository, with a login if the registry wants one.
// Any status but 2xx is an *Error.
func (c *Client) ask(ctx context.Context, method string, name oci.Name, to *url.URL, header http.Header) (*http.Response, error) {
	known := c.scheme.Load()
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(ctx, method, to.String(), nil)
		if err != nil {
			return nil, &Error{Err: err}
		}
		for k, v := range header {
			req.Header[k] = v
		}
		req.Header.Set("User-Agent", c.opts.UserAgent)
		if err := c.authorize(ctx, req, known, name); err != nil {
			return nil, err
		}
		resp, err := c.http.Do(req) //nolint:bodyclose // the caller does, or refused
		if err != nil {
			return nil, unreachable(ctx, err)
		}
		c.noteLimit(resp.Header)
		if resp.StatusCode/100 == 2 {
			return resp, nil
		}
		asked := resp.StatusCode == http.StatusUnauthorized && resp.Request.URL.Host == c.opts.URL.Host
		failure := c.refused(resp)
		if !asked || try > 0 {
			return nil, failure
		}
		wanted, err := c.challenged(resp.Header)
		if err != nil {
			failure.Err = err
			return nil, failure
		}
		if wanted == nil || wanted.basic && c.opts.Credentials == nil {
			return nil, failure
		}
		c.tokens.forget(name)
		known = wanted
		c.scheme.Store(wanted)
	}
}

// noteLimit reads "76;w=21600".
func (c *Client) noteLimit(h http.Header) {
	left, _, _ := strings.Cut(h.Get("RateLimit-Remaining"), ";")
	if n, err := strconv.Atoi(strings.TrimSpace(left)); err == nil && c.opts.Limit != nil {
		c.opts.Limit(n)
	}
}

// at is a URL below the repository.
func (c *Client) at(name oci.Name, path string) *url.URL {
	u := *c.opts.URL
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v2/" + string(name) + path
	return &u
}

// Ping asks whether the registry answers at all, whatever it says about a login.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	u := *c.opts.URL
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v2/"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	resp, err := c.http.Do(req) //nolint:bodyclose // drain or refused does
	if err != nil {
		return unreachable(ctx, err)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusUnauthorized {
		drain(resp.Body)
		return nil
	}
	return c.refused(resp)
}

// drain lets the connection be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxErrorBody) // the connection is closed otherwise
	_ = body.Close()
}

// read reads a small body whole.
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
