package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
)

func TestClientAddress(t *testing.T) {
	trusted := proxies{networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	both := proxies{networks: trusted.networks, unix: true}
	for _, tt := range []struct {
		name    string
		proxies proxies
		peer    string
		headers map[string][]string
		want    string
	}{
		{"no proxy", trusted, "192.0.2.1:99", nil, "192.0.2.1:99"},
		{"a client that says so itself", trusted, "192.0.2.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}, "X-Real-Ip": {"203.0.113.9"}}, "192.0.2.1:99"},
		{"nobody is trusted", proxies{}, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "10.0.0.1:99"},
		{"a proxy", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9"},
		{"a proxy that is reached by IPv6", trusted, "[::ffff:10.0.0.1]:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9"},
		{"a proxy behind another", trusted, "[::1]:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9, 10.1.1.1"}}, "203.0.113.9"},
		{"several headers", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"198.51.100.1", "203.0.113.9:1234", "10.1.1.1"}}, "203.0.113.9"},
		{"what the client put in front", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"10.9.9.9, 198.51.100.1, 203.0.113.9"}}, "203.0.113.9"},
		{"a client within the network", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"10.2.2.2"}}, "10.2.2.2"},
		{"nonsense", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9, unknown"}}, "10.0.0.1:99"},
		{"IPv6", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"[2001:db8::1]:443"}}, "2001:db8::1"},
		{"Forwarded", trusted, "10.0.0.1:99", map[string][]string{"Forwarded": {`for=198.51.100.1, for="[2001:db8::1]:443";proto=https, for=10.1.1.1`}}, "2001:db8::1"},
		{"Forwarded without for", trusted, "10.0.0.1:99", map[string][]string{"Forwarded": {"proto=https;host=a"}}, "10.0.0.1:99"},
		{"Forwarded that is hidden", trusted, "10.0.0.1:99", map[string][]string{"Forwarded": {"for=_hidden"}}, "10.0.0.1:99"},
		{"a Forwarded header that the proxy passes on", trusted, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=198.51.100.1"}}, "203.0.113.9"},
		{"X-Real-IP", trusted, "10.0.0.1:99", map[string][]string{"X-Real-Ip": {"203.0.113.9"}}, "203.0.113.9"},
		{"a unix socket", both, "@", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9"},
		{"a unix socket that is not trusted", trusted, "@", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "@"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.proxies.client(&http.Request{RemoteAddr: tt.peer, Header: tt.headers}); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

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
				Logins: &auth.Logins{}, TokenRealm: func(r *http.Request) string { return RedirectRealm(r, "/auth") },
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

func FuzzForwardedFor(f *testing.F) {
	f.Add(`for=a, for="[::1]:2";proto=x`)
	f.Add(`for="a`)
	f.Fuzz(func(_ *testing.T, s string) { forwardedFor(s) })
}
