// Package link builds the URLs that the API gives to clients.
package link

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"slipway/registry/internal/address"
	"slipway/registry/internal/oci"
)

// Builder builds the links that clients follow.
type Builder struct {
	Prefix   string // "" or "/reg"
	host     string // "" or "https://example.org/reg": wins over the request's headers
	relative bool
}

// New returns a Builder for http.prefix, http.host and http.relativeurls. The error is about
// http.host.
func New(prefix, host string, relative bool) (Builder, error) {
	u := Builder{relative: relative}
	if p := strings.Trim(prefix, "/"); p != "" {
		u.Prefix = "/" + p
	}
	if host == "" {
		return u, nil
	}
	parsed, err := url.Parse(host)
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return u, fmt.Errorf("http.host must be a URL with scheme and host, like https://registry.example.org, not %q", host)
	}
	base := strings.TrimRight(parsed.EscapedPath(), "/")
	if base == "" {
		base = u.Prefix // a configured path includes the prefix
	}
	u.host = parsed.Scheme + "://" + parsed.Host + base
	return u, nil
}

// Protection returns the protection against cross-origin requests. It trusts the registry's own
// origin: the request's Host and that of http.host.
func (u *Builder) Protection() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	if u.host == "" {
		return p, nil
	}
	parsed, err := url.Parse(u.host) // checked by New
	if err == nil {
		err = p.AddTrustedOrigin(parsed.Scheme + "://" + parsed.Host)
	}
	return p, err
}

// Root returns the part of a Location before "/v2/".
func (u *Builder) Root(r *http.Request) string {
	if u.host != "" {
		return u.host
	}
	if u.relative {
		return u.Prefix
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if s, h := address.Forwarded(r.Header); s != "" || h != "" {
		scheme, host = cmp.Or(s, scheme), cmp.Or(h, host)
	}
	return scheme + "://" + host + u.Prefix
}

// Absolute returns the root as an absolute URL, also if http.relativeurls is set.
func (u *Builder) Absolute(r *http.Request) string {
	absolute := *u
	absolute.relative = false
	return absolute.Root(r)
}

// Base returns the path of the root, as browsers see it.
func (u *Builder) Base() string {
	if parsed, err := url.Parse(u.host); err == nil && parsed.Host != "" {
		return parsed.EscapedPath()
	}
	return u.Prefix
}

// PublicRoot returns a function that returns the absolute URL, without /v2/, by which a client
// reaches the registry. The error is about host.
func PublicRoot(prefix, host string) (func(*http.Request) string, error) {
	u, err := New(prefix, host, false)
	if err != nil {
		return nil, err
	}
	return u.Root, nil
}

// RedirectRealm returns the URL of a token server behind the same host, as distribution's
// autoredirect does: https unless a proxy says otherwise.
func RedirectRealm(r *http.Request, path string) string {
	scheme, host := address.Forwarded(r.Header)
	return cmp.Or(scheme, "https") + "://" + cmp.Or(host, r.Host) + path
}

// Blob returns the URL of a blob.
func (u *Builder) Blob(r *http.Request, name oci.Name, d oci.Digest) string {
	return u.Root(r) + "/v2/" + string(name) + "/blobs/" + string(d)
}

// Manifest returns the URL of a manifest.
func (u *Builder) Manifest(r *http.Request, name oci.Name, d oci.Digest) string {
	return u.Root(r) + "/v2/" + string(name) + "/manifests/" + string(d)
}

// Upload returns the URL at which a client continues an upload.
func (u *Builder) Upload(r *http.Request, name oci.Name, id, state string) string {
	return u.Root(r) + "/v2/" + string(name) + "/blobs/uploads/" + id + "?_state=" + url.QueryEscape(state)
}

// Clean returns the path without empty and dot elements; a slash at its end stays.
func Clean(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
