// Package acmetest starts a real ACME authority, Let's Encrypt's Pebble, for tests of servers that get their certificate from one.
package acmetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// Host is a name that resolves to this machine for the authority.
const Host = "service.example.org"

// Authority is a Pebble that runs until the test ends.
type Authority struct {
	Directory string         // its URL
	CAFile    string         // with what a client trusts it, and servers that have its certificates
	Roots     *x509.CertPool // what it signs certificates with
}

// Start runs an authority that sends its challenges to the address of the server under test, whatever its port. Its certificates are
// valid for the given time.
func Start(t testing.TB, server string, life time.Duration) *Authority {
	t.Helper()
	_, portText, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	names, api, management := programtest.FreeAddr(t), programtest.FreeAddr(t), programtest.FreeAddr(t)
	programtest.Start(t, exec.CommandContext(context.WithoutCancel(t.Context()), programtest.Tool(t, "pebble-challtestsrv"), "-dnsserver", names, "-management", management,
		"-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "", "-defaultIPv6", ""), "http://"+management)

	cert, key := programtest.Certificate(t)
	roots := programtest.FreeAddr(t)
	config := map[string]any{"pebble": map[string]any{
		"listenAddress": api, "managementListenAddress": roots, "certificate": cert, "privateKey": key, "httpPort": 1, "tlsPort": port,
		"keyAlgorithm": "ecdsa", "profiles": map[string]any{"default": map[string]any{"description": "of a test", "validityPeriod": int(life.Seconds())}},
	}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pebble.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), programtest.Tool(t, "pebble"), "-config", file, "-dnsserver", names)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	programtest.Start(t, cmd, "http://"+api) // answered with 400: it speaks TLS

	a := &Authority{Directory: "https://" + api + "/dir", CAFile: filepath.Join(t.TempDir(), "trusted.pem"), Roots: x509.NewCertPool()}
	own, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	root := fetch(t, own, "https://"+roots+"/roots/0")
	if !a.Roots.AppendCertsFromPEM(root) {
		t.Fatal("the authority shows no root")
	}
	if err := os.WriteFile(a.CAFile, append(own, root...), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// fetch returns the content of a URL from a server with the given certificate.
func fetch(t testing.TB, cert []byte, url string) []byte {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Dial makes a TLS connection to the server as a client that trusts the authority, and returns the server's certificate.
func (a *Authority) Dial(ctx context.Context, server, host string) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, RootCAs: a.Roots}}
	conn, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	state := conn.(*tls.Conn).ConnectionState() //nolint:forcetypeassert // it dials TLS
	return state.PeerCertificates[0], conn.Close()
}
