package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

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
	if s, h := forwarded(r.Header); s != "" || h != "" {
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
	scheme, host := forwarded(r.Header)
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

// forwarded reads what a reverse proxy says of the client's side: the first
// element of Forwarded (RFC 7239) or, only without that header, of
// X-Forwarded-Proto and X-Forwarded-Host. Values that could not stand in a URL
// are passed over.
func forwarded(h http.Header) (scheme, host string) {
	if values := h["Forwarded"]; len(values) > 0 {
		scheme, host = parseForwarded(values[0])
	} else {
		scheme, host = firstElement(h.Get("X-Forwarded-Proto")), firstElement(h.Get("X-Forwarded-Host"))
	}
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		scheme = ""
	}
	if !validHost(host) {
		host = ""
	}
	return scheme, host
}

// parseForwarded reads proto and host of the first element; both are "" if the
// element does not follow the grammar.
func parseForwarded(s string) (proto, host string) {
	for {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return "", ""
		}
		value, rest, ok := forwardedValue(rest)
		if !ok {
			return "", ""
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "proto":
			proto = value
		case "host":
			host = value
		}
		if rest == "" || rest[0] == ',' {
			return proto, host
		}
		s = rest[1:]
	}
}

// forwardedValue reads a token or quoted string up to the next ';', ',' or end.
func forwardedValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, ";,"); i >= 0 {
			return strings.TrimSpace(s[:i]), s[i:], true
		}
		return strings.TrimSpace(s), "", true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			rest = strings.TrimSpace(s[i+1:])
			return b.String(), rest, rest == "" || rest[0] == ';' || rest[0] == ','
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func firstElement(s string) string {
	first, _, _ := strings.Cut(s, ",")
	return strings.TrimSpace(first)
}

// validHost accepts host names, addresses and ports, and nothing that would
// end the host's part of a URL.
func validHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if lower := c | 0x20; (lower < 'a' || lower > 'z') && (c < '0' || c > '9') && strings.IndexByte(".-_:[]", c) < 0 {
			return false
		}
	}
	return s != ""
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
