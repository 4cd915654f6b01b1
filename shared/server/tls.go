package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/shared/filewatch"

	"go.uber.org/zap"
)

var tlsVersions = []string{"tls1.0", "tls1.1", "tls1.2", "tls1.3"}

var clientAuths = []string{"request-client-cert", "require-any-client-cert", "verify-client-cert-if-given", "require-and-verify-client-cert"}

// openCertificates completes a TLS configuration from files, and follows their changes. Unchanged contents
// keep the configuration, and with it the sessions that clients want to resume.
func openCertificates(o TLS, base *tls.Config, log *zap.Logger) (*filewatch.Value[*tls.Config], error) {
	if err := o.apply(base); err != nil {
		return nil, err
	}
	paths := append([]string{o.Certificate, o.Key}, o.ClientCAs...)
	return filewatch.Open(filewatch.Options{What: "TLS files", Paths: paths, Log: log}, func(contents [][]byte) (*tls.Config, error) {
		return o.build(base.Clone(), contents)
	})
}

// Check reads the files and describes what is wrong with them or with the other settings.
func (t *TLS) Check() error {
	_, err := openCertificates(*t, &tls.Config{}, zap.NewNop())
	return err
}

// apply sets what does not come out of files.
func (t TLS) apply(config *tls.Config) error {
	config.MinVersion = tls.VersionTLS12
	if t.MinVersion != "" {
		i := slices.Index(tlsVersions, t.MinVersion)
		if i < 0 {
			return fmt.Errorf("TLS version %q is not one of %s", t.MinVersion, strings.Join(tlsVersions, ", "))
		}
		config.MinVersion = tls.VersionTLS10 + uint16(i)
	}
	suites := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for _, name := range t.CipherSuites {
		i := slices.IndexFunc(suites, func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("TLS cipher suite %q is not known", name)
		}
		config.CipherSuites = append(config.CipherSuites, suites[i].ID)
	}
	return t.applyClientAuth(config)
}

func (t TLS) applyClientAuth(config *tls.Config) error {
	if t.ClientAuth == "" {
		if len(t.ClientCAs) > 0 {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return nil
	}
	i := slices.Index(clientAuths, t.ClientAuth)
	if i < 0 {
		return fmt.Errorf("TLS client authentication %q is not one of %s", t.ClientAuth, strings.Join(clientAuths, ", "))
	}
	config.ClientAuth = tls.RequestClientCert + tls.ClientAuthType(i)
	if config.ClientAuth >= tls.VerifyClientCertIfGiven && len(t.ClientCAs) == 0 {
		return fmt.Errorf("TLS client authentication %q needs client CAs", t.ClientAuth)
	}
	return nil
}

// CertificateExpiry returns the expiry of the certificate that clients get; the zero time without TLS and before an ACME authority has
// issued the first.
func (s *Server) CertificateExpiry() time.Time {
	switch {
	case s.files == nil:
		return time.Time{}
	case s.issuer != nil:
		if at := s.issuer.expiry.Load(); at != 0 {
			return time.Unix(at, 0)
		}
		return time.Time{}
	}
	return s.files.Get().Certificates[0].Leaf.NotAfter
}

// Certificate returns the certificate for a client of another server of this process with the same name. The server must use
// TLS.
func (s *Server) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.issuer != nil {
		return s.issuer.certificate(hello)
	}
	return &s.files.Get().Certificates[0], nil
}

// build completes the configuration with what the files hold.
func (t TLS) build(config *tls.Config, contents [][]byte) (*tls.Config, error) {
	if t.ACME != nil {
		return t.trust(config, contents)
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil && strings.Contains(err.Error(), "private key") && strings.Contains(err.Error(), "does not match") {
		return nil, fmt.Errorf("the key %s is not that of the certificate %s (%w)", t.Key, t.Certificate, err)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w", t.Certificate, t.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return t.trust(config, contents)
}

// trust adds the authorities of the clients' certificates.
func (t TLS) trust(config *tls.Config, contents [][]byte) (*tls.Config, error) {
	if len(t.ClientCAs) == 0 {
		return config, nil
	}
	config.ClientCAs = x509.NewCertPool()
	for i, path := range t.ClientCAs {
		if !config.ClientCAs.AppendCertsFromPEM(contents[2+i]) {
			return nil, fmt.Errorf("%s holds no certificate of a client CA", path)
		}
	}
	return config, nil
}
