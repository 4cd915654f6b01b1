package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	"slipway/relay/internal/config"
)

// LocalURL returns the URL at which this machine reaches the configured relay.
func LocalURL(cfg *config.Config) string {
	host, port, err := net.SplitHostPort(cfg.HTTP.ListenAddress)
	if err != nil {
		return "http://" + cfg.HTTP.ListenAddress
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if cfg.HTTP.TLS() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// LocalTransport trusts the one certificate that the configuration names: it names
// the service, not this machine. A certificate by an ACME authority must be valid for
// the name.
func LocalTransport(cfg *config.Config) (*http.Transport, error) {
	t := &http.Transport{}
	switch {
	case cfg.HTTP.ACME.Enabled():
		t.TLSClientConfig = &tls.Config{ServerName: cfg.HTTP.ACME.Hosts[0], MinVersion: tls.VersionTLS12}
		return t, nil
	case cfg.HTTP.CertFile == "":
		return t, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.HTTP.CertFile, cfg.HTTP.KeyFile)
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig = &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyPeerCertificate compares the certificate itself
		VerifyPeerCertificate: func(presented [][]byte, _ [][]*x509.Certificate) error {
			if len(presented) == 0 || !bytes.Equal(presented[0], pair.Certificate[0]) {
				return errors.New("the server does not present the certificate of http.certfile")
			}
			return nil
		},
	}
	return t, nil
}
