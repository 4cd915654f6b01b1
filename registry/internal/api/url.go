package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"slipway/registry/internal/address"
	"slipway/registry/internal/oci"
)

// urls builds the links that clients follow.
type urls struct {
	prefix   string // "" or "/reg"
	host     string // "" or "https://example.org/reg": wins over the request's headers
	relative bool
}

// newURLs reads http.prefix, http.host and http.relativeurls.
func newURLs(prefix, host string, relative bool) (urls, error) {
	u := urls{relative: relative}
	if p := strings.Trim(prefix, "/"); p != "" {
		u.prefix = "/" + p
	}
	if host == "" {
		return u, nil
	}
	parsed, err := url.Parse(host)
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return u, fmt.Errorf("http.host must be a URL with scheme and host, like https://registry.example.org, not %q", host)
	}
	path := strings.TrimRight(parsed.EscapedPath(), "/")
	if path == "" {
		path = u.prefix // a configured path includes the prefix
	}
	u.host = parsed.Scheme + "://" + parsed.Host + path
	return u, nil
}

// protection knows the registry's own origin: the request's Host and that of http.host.
func (u *urls) protection() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	if u.host == "" {
		return p, nil
	}
	parsed, err := url.Parse(u.host) // checked by newURLs
	if err == nil {
		err = p.AddTrustedOrigin(parsed.Scheme + "://" + parsed.Host)
	}
	return p, err
}

// root is what stands before "/v2/" in a Location.
func (u *urls) root(r *http.Request) string {
	if u.host != "" {
		return u.host
	}
	if u.relative {
		return u.prefix
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if s, h := address.Forwarded(r.Header); s != "" || h != "" {
		scheme, host = orElse(s, scheme), orElse(h, host)
	}
	return scheme + "://" + host + u.prefix
}

// PublicRoot makes a function that tells by which absolute URL, without /v2/, a client
// reaches the registry.
func PublicRoot(prefix, host string) (func(*http.Request) string, error) {
	u, err := newURLs(prefix, host, false)
	if err != nil {
		return nil, err
	}
	return u.root, nil
}

// RedirectRealm is the URL of a token server behind the same host, as distribution's
// autoredirect has it: https unless a proxy says otherwise.
func RedirectRealm(r *http.Request, path string) string {
	scheme, host := address.Forwarded(r.Header)
	return orElse(scheme, "https") + "://" + orElse(host, r.Host) + path
}

func (u *urls) blob(r *http.Request, name oci.Name, d oci.Digest) string {
	return u.root(r) + "/v2/" + string(name) + "/blobs/" + string(d)
}

func (u *urls) manifest(r *http.Request, name oci.Name, d oci.Digest) string {
	return u.root(r) + "/v2/" + string(name) + "/manifests/" + string(d)
}

func (u *urls) upload(r *http.Request, name oci.Name, id, state string) string {
	return u.root(r) + "/v2/" + string(name) + "/blobs/uploads/" + id + "?_state=" + url.QueryEscape(state)
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
