package clientaddr

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	trusted := Proxies{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	both := Proxies{Networks: trusted.Networks, Unix: true}
	for _, tt := range []struct {
		name    string
		proxies Proxies
		peer    string
		headers map[string][]string
		want    string
	}{
		{"no proxy", trusted, "192.0.2.1:99", nil, "192.0.2.1:99"},
		{"a client that says so itself", trusted, "192.0.2.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}, "X-Real-Ip": {"203.0.113.9"}}, "192.0.2.1:99"},
		{"nobody is trusted", Proxies{}, "10.0.0.1:99", map[string][]string{"X-Forwarded-For": {"203.0.113.9"}}, "10.0.0.1:99"},
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
			if got := tt.proxies.Client(&http.Request{RemoteAddr: tt.peer, Header: tt.headers}); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzForwardedFor(f *testing.F) {
	f.Add(`for=a, for="[::1]:2";proto=x`)
	f.Add(`for="a`)
	f.Fuzz(func(_ *testing.T, s string) { forwardedFor(s) })
}

func FuzzForwarded(f *testing.F) {
	f.Add(`for=1;proto=https;host="a\"b"`, "https", "h")
	f.Add("proto=https", "", "a,b")
	f.Fuzz(func(t *testing.T, fw, proto, host string) {
		for _, h := range []http.Header{{"Forwarded": {fw}}, {"X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {host}}} {
			s, got := Forwarded(h)
			if s != "" && s != "http" && s != "https" || got != "" && !validHost(got) {
				t.Errorf("%v gives %q %q", h, s, got)
			}
		}
	})
}
