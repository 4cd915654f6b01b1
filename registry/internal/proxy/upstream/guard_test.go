package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

func TestScopeOf(t *testing.T) {
	for address, want := range map[string]scope{
		"8.8.8.8": public, "2606:4700::1111": public, "127.0.0.1": loopback, "127.9.9.9": loopback, "::1": loopback, "0.0.0.0": loopback, "::": loopback,
		"169.254.169.254": linkLocal, "fe80::1%eth0": linkLocal, "224.0.0.1": linkLocal, "10.1.2.3": private, "172.16.0.1": private, "192.168.1.1": private,
		"fd00::1": private, "100.100.100.200": private, "192.0.0.192": private, "0.1.2.3": private,
		"::ffff:127.0.0.1": loopback, "::ffff:169.254.169.254": linkLocal, "64:ff9b::a9fe:a9fe": linkLocal, "64:ff9b::808:808": public,
	} {
		if got := scopeOf(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}

// An upstream with a public address can't have the registry read from this host or its
// networks: neither by an address nor by a name that resolves to one.
func TestRedirect_ToPrivateAddresses(t *testing.T) {
	asked := 0
	inside := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked++; w.Write(layer) })
	target := inside.String()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/direct/") {
			w.Write(layer)
			return
		}
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	_, port, _ := strings.Cut(inside.Host, ":")
	for _, test := range []struct {
		target string
		allow  bool // by the setting
		there  bool // the upstream itself has a loopback address
		want   bool
	}{
		{inside.String(), false, false, false},
		{"http://localhost:" + port, false, false, false},
		{"http://[::ffff:127.0.0.1]:" + port, false, false, false},
		{inside.String(), true, false, true},
		{inside.String(), false, true, true},
		{"http://localhost:" + port, false, true, true},
	} {
		asked, target = 0, test.target
		c := client(t, u, func(o *Options) { o.PrivateRedirects = test.allow })
		check(t, fetch(t.Context(), c, "direct", layer))
		if !test.there {
			c.guard.seen.Store(uint32(public)) // as if that connection had gone to a public address
			c.guard.own = "registry.example.org"
		}
		err := fetch(t.Context(), c, "a", layer)
		if test.want != (err == nil) || test.want != (asked == 1) {
			t.Errorf("%+v: %v, %d requests", test, err, asked)
		}
		if err != nil && (ReasonOf(err) != Invalid || !strings.Contains(err.Error(), "privateredirects")) {
			t.Errorf("%+v: the error is %v", test, err)
		}
	}
}

// The token server that an operator trusts, and an HTTP proxy, may be anywhere.
func TestGuard_TrustedHosts(t *testing.T) {
	u := serve(t, func(http.ResponseWriter, *http.Request) {})
	g := &guard{own: "registry.example.org"}
	if conn, err := g.dial(t.Context(), "tcp", u.Host); err == nil {
		conn.Close()
		t.Error("connected to a loopback address that nobody trusts")
	}
	g.trusted = []string{u.Host}
	if conn, err := g.dial(t.Context(), "tcp", u.Host); err != nil {
		t.Errorf("a trusted realm: %v", err)
	} else {
		conn.Close()
	}
	g.trusted = nil
	g.proxies.Store(u.Host, true)
	if conn, err := g.dial(t.Context(), "tcp", u.Host); err != nil {
		t.Errorf("a proxy: %v", err)
	} else {
		conn.Close()
	}
	beside := serve(t, func(http.ResponseWriter, *http.Request) {})
	if conn, err := g.dial(t.Context(), "tcp", beside.Host); err == nil {
		conn.Close()
		t.Error("connected to another port of the proxy's host")
	}
	literal, err := url.Parse("https://169.254.169.254/latest")
	check(t, err)
	if g.checkURL(literal) == nil {
		t.Error("a literal address behind a proxy is allowed")
	}
}

// An upstream whose name resolves to an address of this host for a moment opens no networks: what is there can't prove to be the upstream.
func TestGuard_NameOfAnother(t *testing.T) {
	cert, key := programtest.Certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	check(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	check(t, err)
	content, err := os.ReadFile(cert)
	check(t, err)
	for _, proves := range []bool{false, true} {
		known := x509.NewCertPool()
		if proves {
			known.AppendCertsFromPEM(content)
		}
		c := New(Options{URL: &url.URL{Scheme: "https", Host: "localhost:" + port}, CAs: known})
		err := c.Ping(t.Context())
		if seen := c.guard.check(netip.MustParseAddr("127.0.0.1")) == nil; seen != proves {
			t.Errorf("proves to be the upstream: %v (%v); loopback addresses are allowed: %v", proves, err, seen)
		}
		c.Close()
	}
}
