package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api/urls"
	"slipway/registry/internal/auth"
)

// Only a trusted proxy chooses the host and the scheme of the addresses in answers, once
// there is one.
func TestForwardedHost(t *testing.T) {
	network := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	for _, tt := range []struct {
		name    string
		trusted []netip.Prefix
		unix    bool
		want    bool // the header counts
	}{
		{"nobody is trusted", nil, false, true},
		{"the peer is trusted", network("127.0.0.0/8"), false, true},
		{"somebody else is", network("10.0.0.0/8"), false, false},
		{"a socket is", nil, true, false},
	} {
		s := newServer(t, func(s *setup) { s.options.TrustedProxies, s.options.TrustUnix = tt.trusted, tt.unix }, func(s *setup) {
			s.options.Auth = auth.NewAuthorizer(auth.Options{
				Rules:  func() *access.Rules { return access.UsersOnly(true) },
				Logins: &auth.Logins{}, TokenRealm: func(r *http.Request) string { return urls.RedirectRealm(r, "/auth") },
			})
		})
		own := newServer(t, func(x *setup) { x.options.TrustedProxies, x.options.TrustUnix = tt.trusted, tt.unix })
		for _, header := range [][]string{{"X-Forwarded-Host", "evil.example.org", "X-Forwarded-Proto", "https"}, {"Forwarded", "host=evil.example.org;proto=https"}} {
			location := own.do("POST", "/v2/a/blobs/uploads/", nil, header...).want(t, 202).location(t)
			realm := s.do("POST", "/v2/a/blobs/uploads/", nil, header...).want(t, 401).Header.Get("WWW-Authenticate")
			for _, got := range []string{location, realm} {
				if strings.Contains(got, "evil.example.org") != tt.want {
					t.Errorf("%s, %s: %s", tt.name, header[0], got)
				}
			}
		}
	}
}
