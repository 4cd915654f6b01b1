package request

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"
)

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func TestAddress(t *testing.T) {
	tests := []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"192.0.2.1:99", nil, "192.0.2.1"},
		{"192.0.2.1:99", []string{"203.0.113.7"}, "192.0.2.1"}, // not trusted: its word is nothing
		{"10.0.0.1:99", nil, "10.0.0.1"},
		{"10.0.0.1:99", []string{"203.0.113.7"}, "203.0.113.7"},
		{"[::ffff:10.0.0.1]:99", []string{"203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:99", []string{"6.6.6.6, 203.0.113.7, 10.0.0.9"}, "203.0.113.7"}, // what the client wrote itself is passed over
		{"10.0.0.1:99", []string{"6.6.6.6", "203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:99", []string{"6.6.6.6, nonsense"}, "10.0.0.1"},
		{"10.0.0.1:99", []string{"10.2.0.1"}, "10.2.0.1"},
		{"[::1]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"@", nil, "@"}, // a socket
	}
	for _, tt := range tests {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded}}
		if got := Address(r, trusted); got != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
}

func TestSecure(t *testing.T) {
	https := http.Header{"X-Forwarded-Proto": {"https"}}
	tests := []struct {
		r    http.Request
		want bool
	}{
		{http.Request{RemoteAddr: "192.0.2.1:9"}, false},
		{http.Request{RemoteAddr: "192.0.2.1:9", TLS: &tls.ConnectionState{}}, true},
		{http.Request{RemoteAddr: "192.0.2.1:9", Header: https}, false},
		{http.Request{RemoteAddr: "10.0.0.1:9", Header: https}, true},
		{http.Request{RemoteAddr: "10.0.0.1:9"}, false},
	}
	for _, tt := range tests {
		if got := Secure(&tt.r, trusted); got != tt.want {
			t.Errorf("%s %v: %v, want %v", tt.r.RemoteAddr, tt.r.Header, got, tt.want)
		}
	}
}
