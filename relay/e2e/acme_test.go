package e2e

import (
	"testing"
	"time"

	"slipway/shared/acmetest"
	"slipway/shared/programtest"
)

// The certificate of the main address and of SMTP comes from an ACME authority, and is kept in the database.
func TestACME(t *testing.T) {
	s := newSiteAt(t, newStub(t).url)
	authority, mail := acmetest.Start(t, s.addr, time.Hour), programtest.FreeAddr(t)
	s.env = []string{
		"RELAY_HTTP_ACME_HOSTS=[" + acmetest.Host + "]", "RELAY_HTTP_ACME_DIRECTORYURL=" + authority.Directory, "SSL_CERT_FILE=" + authority.CAFile,
		"RELAY_SMTP_LISTENADDRESS=" + mail, "RELAY_SMTP_IMPLICITTLS=true",
	}
	serial := func(addr string) string {
		cert, err := authority.Dial(s.ctx, addr, acmetest.Host)
		if err != nil {
			return ""
		}
		return cert.SerialNumber.String()
	}
	s.launch()
	s.eventually("the relay has a certificate", func() bool { return serial(s.addr) != "" })
	first := serial(s.addr)
	if got := serial(mail); got != first {
		t.Errorf("SMTP has the certificate %q, want %q", got, first)
	}
	if _, err := authority.Dial(s.ctx, s.addr, "other.example.org"); err == nil {
		t.Error("a host that isn't listed gets a certificate")
	}
	s.says(0, nil, "app", "list", "--config", s.configure())
	s.stop()
	s.launch()
	s.eventually("the relay answers again", func() bool { return serial(s.addr) != "" })
	if got := serial(s.addr); got != first {
		t.Errorf("after a restart the certificate is %q, want %q", got, first)
	}
}
