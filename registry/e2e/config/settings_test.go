package config

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// TestTLS: encryption by file and by variable, HTTP/2 unless disabled, and no cipher suite that distribution
// doesn't offer by default.
func TestTLS(t *testing.T) {
	cert, key := programtest.Certificate(t)
	for _, disabled := range []string{"false", "true"} {
		addr := programtest.FreeAddr(t)
		harness.Serve(t, addr, []string{
			"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_ADDR=" + addr,
			"REGISTRY_HTTP_TLS_CERTIFICATE=" + cert, "REGISTRY_HTTP_TLS_KEY=" + key, "REGISTRY_HTTP_HTTP2_DISABLED=" + disabled,
		})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
		resp, err := client.Get("https://" + addr + "/v2/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[string]int{"false": 2, "true": 1}[disabled]; resp.StatusCode != http.StatusOK || resp.ProtoMajor != want {
			t.Errorf("http2.disabled %s: %d, HTTP/%d", disabled, resp.StatusCode, resp.ProtoMajor)
		}
		for suite, want := range map[uint16]bool{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: false} {
			conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
			if (err == nil) != want {
				t.Errorf("a client that has only %s: %v", tls.CipherSuiteName(suite), err)
			}
			if err == nil {
				conn.Close()
			}
		}
	}
}

// TestHealthBehindCertificates: a registry that lets nobody in without a
// certificate is alive; nobody may restart it for that.
func TestHealthBehindCertificates(t *testing.T) {
	cert, key := programtest.Certificate(t)
	addr := programtest.FreeAddr(t)
	env := []string{
		"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_TLS_CERTIFICATE=" + cert, "REGISTRY_HTTP_TLS_KEY=" + key, "REGISTRY_HTTP_TLS_CLIENTCAS=[" + cert + "]",
	}
	harness.Serve(t, addr, env)
	if out, code := harness.Run(t, env, "health"); code != 0 || !strings.Contains(out, "http.debug.addr") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestUnixSocket: http.net decides what http.addr is.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "registry.sock")
	cmd := exec.Command(harness.Binary, "serve")
	cmd.Env = []string{"REGISTRY_STORAGE=inmemory", "REGISTRY_HTTP_NET=unix", "REGISTRY_HTTP_ADDR=" + socket, "REGISTRY_HTTP_PREFIX=/reg/"}
	programtest.Launch(t, cmd)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	var resp *http.Response
	var err error
	harness.Eventually(t, "the registry answers on its socket", func() bool {
		resp, err = client.Get("http://registry/reg/v2/")
		return err == nil
	})
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
}
