package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// ACME configures certificates from an authority that implements ACME (RFC 8555), such as Let's Encrypt. A certificate is renewed
// after two thirds of its lifetime. The authority must reach the server at port 443 of each host (RFC 8737, tls-alpn-01).
type ACME struct {
	Hosts     []string       // at least one; a client that asks for another host gets no certificate
	Email     string         // contact address for the authority; may be ""
	Directory string         // URL of the authority; "" is Let's Encrypt
	Cache     autocert.Cache // keeps the account and the certificates; servers behind one name share it
}

// issuer obtains certificates from an ACME authority and serves them to TLS clients.
type issuer struct {
	manager *autocert.Manager
	hosts   []string
	log     *zap.Logger  // one line for each host in failureEvery
	expiry  atomic.Int64 // of the certificate served last, in Unix seconds
}

const failureEvery = 10 * time.Minute

func newIssuer(a ACME, log *zap.Logger) *issuer {
	sampled := func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, failureEvery, len(a.Hosts), 0)
	}
	return &issuer{
		hosts: a.Hosts, log: log.WithOptions(zap.WrapCore(sampled)),
		manager: &autocert.Manager{
			Prompt: autocert.AcceptTOS, Cache: a.Cache, HostPolicy: autocert.HostWhitelist(a.Hosts...), Email: a.Email,
			Client: &acme.Client{DirectoryURL: cmp.Or(a.Directory, autocert.DefaultACMEDirectory), UserAgent: "slipway"},
		},
	}
}

// certificate implements the GetCertificate of a [tls.Config]. A client that sends no server name gets the certificate of the first host.
func (i *issuer) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	asked := *hello
	asked.ServerName = cmp.Or(strings.ToLower(strings.TrimSuffix(hello.ServerName, ".")), i.hosts[0])
	if !slices.Contains(i.hosts, asked.ServerName) { // before anything is read for it
		return nil, fmt.Errorf("there is no certificate for %q", asked.ServerName)
	}
	c, err := i.manager.GetCertificate(&asked)
	if err != nil {
		i.log.Error("cannot get a certificate; the authority must reach this server at port 443 of the host", zap.String("host", asked.ServerName), zap.Error(err))
		return nil, err
	}
	if c.Leaf != nil && !isChallenge(hello) {
		i.expiry.Store(c.Leaf.NotAfter.Unix())
	}
	return c, nil
}

// obtain requests the missing certificates, so that the first client needn't wait.
func (i *issuer) obtain() {
	for _, host := range i.hosts {
		_, _ = i.certificate(&tls.ClientHelloInfo{ // logged
			ServerName: host, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
			SupportedCurves: []tls.CurveID{tls.CurveP256}, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		})
	}
}

// challenge returns the TLS configuration for the authority's challenge, which requires no client certificate.
func (i *issuer) challenge() *tls.Config {
	return &tls.Config{GetCertificate: i.certificate, NextProtos: []string{acme.ALPNProto}, MinVersion: tls.VersionTLS12}
}

// isChallenge reports whether hello is the challenge of an authority (RFC 8737 section 3).
func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto
}
