package config

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/acmetest"
	"slipway/shared/programtest"
)

// A certificate comes from an ACME authority, though clients need one of their own; it is kept in the storage over a restart, renewed
// before it ends, and for no other host.
func TestLetsEncrypt(t *testing.T) {
	dir, addr := t.TempDir(), programtest.FreeAddr(t)
	authority := acmetest.Start(t, addr, time.Minute)
	clients, _ := programtest.Certificate(t)
	file := filepath.Join(dir, "config.yml")
	harness.WriteFile(t, file, fmt.Appendf(nil, `version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http:
  addr: %q
  tls: {clientcas: [%s], letsencrypt: {hosts: [%s], email: admin@example.org, directoryurl: %q}}
`, filepath.Join(dir, "root"), addr, clients, acmetest.Host, authority.Directory))
	start := func() *harness.Process {
		cmd := exec.Command(harness.Binary, "serve", file)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+authority.CAFile)
		return harness.Start(t, addr, cmd) // plain HTTP is answered with 400
	}
	p := start()
	var serial string
	harness.Eventually(t, "the registry has a certificate", func() bool {
		cert, err := authority.Dial(t.Context(), addr, acmetest.Host)
		if err != nil {
			return false
		}
		serial = cert.SerialNumber.String()
		return slices.Equal(cert.DNSNames, []string{acmetest.Host})
	})
	if _, err := authority.Dial(t.Context(), addr, "other.example.org"); err == nil {
		t.Error("a host that isn't listed gets a certificate")
	}
	if out, code := harness.Run(t, nil, "health", "--config", file); code != 0 || !strings.Contains(out, "the registry runs") {
		t.Errorf("registry health: %d %s", code, out)
	}

	if err := p.Stop(t); err != nil {
		t.Error(err)
	}
	start()
	cert, err := authority.Dial(t.Context(), addr, acmetest.Host)
	if err != nil || cert.SerialNumber.String() != serial {
		t.Errorf("after a restart the certificate is %v (%v), want that with the serial %s", cert, err, serial)
	}
	harness.Eventually(t, "the certificate is renewed", func() bool {
		cert, err := authority.Dial(t.Context(), addr, acmetest.Host)
		return err == nil && cert.SerialNumber.String() != serial
	})
}
