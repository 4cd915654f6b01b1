package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/shared/regular"
)

const (
	certLookInterval = time.Second

	// A file changed twice within the resolution of its time stamp looks the
	// same after the second change. One so young is read again.
	stampResolution = 2 * time.Second

	maxTLSFile = 4 << 20
)

var tlsVersions = []string{"tls1.0", "tls1.1", "tls1.2", "tls1.3"}

var clientAuths = []string{"request-client-cert", "require-any-client-cert", "verify-client-cert-if-given", "require-and-verify-client-cert"}

// certificates makes the TLS configuration and makes it again when one of its
// files changes. It looks at most once a second, and only when somebody
// connects.
type certificates struct {
	o     TLS
	base  tls.Config
	log   *zap.Logger
	start time.Time

	current  atomic.Pointer[tls.Config]
	nextLook atomic.Int64 // since start

	mu       sync.Mutex // held while looking
	infos    []os.FileInfo
	readAt   time.Time
	contents [][]byte
	err      error // of the last files
}

func newCertificates(o TLS, protocols []string, log *zap.Logger) (*certificates, error) {
	c := &certificates{o: o, log: log, start: time.Now()}
	c.base.NextProtos = protocols
	if err := c.o.apply(&c.base); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.nextLook.Store(int64(certLookInterval))
	return c, nil
}

// Check reads the files and describes what is wrong with them or with the other settings.
func (t *TLS) Check() error {
	_, err := newCertificates(*t, nil, zap.NewNop())
	return err
}

// apply sets what does not come out of files.
func (t TLS) apply(config *tls.Config) error {
	config.MinVersion = tls.VersionTLS12
	if t.MinVersion != "" {
		i := slices.Index(tlsVersions, t.MinVersion)
		if i < 0 {
			return fmt.Errorf("TLS version %q is none of %s", t.MinVersion, strings.Join(tlsVersions, ", "))
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
		return fmt.Errorf("TLS client authentication %q is none of %s", t.ClientAuth, strings.Join(clientAuths, ", "))
	}
	config.ClientAuth = tls.RequestClientCert + tls.ClientAuthType(i)
	if config.ClientAuth >= tls.VerifyClientCertIfGiven && len(t.ClientCAs) == 0 {
		return fmt.Errorf("TLS client authentication %q needs client CAs", t.ClientAuth)
	}
	return nil
}

// config is what a handshake uses (tls.Config.GetConfigForClient).
func (c *certificates) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	if time.Since(c.start) >= time.Duration(c.nextLook.Load()) && c.mu.TryLock() {
		defer c.mu.Unlock()
		c.look()
		c.nextLook.Store(int64(time.Since(c.start) + certLookInterval))
	}
	return c.current.Load(), nil
}

// look loads the files again if they seem to have changed. What does not load,
// as a certificate whose key is not yet replaced, is reported once and tried
// again at the next change.
func (c *certificates) look() {
	infos, err := c.stat()
	if err == nil && c.same(infos) {
		return
	}
	if err == nil {
		err = c.load()
	}
	c.infos, c.err = infos, err
	if err != nil {
		c.readAt = time.Now()
		c.log.Error("the changed TLS files cannot be used; the former ones stay", zap.Error(err))
	}
}

func (c *certificates) files() []string {
	return append([]string{c.o.Certificate, c.o.Key}, c.o.ClientCAs...)
}

func (c *certificates) stat() ([]os.FileInfo, error) {
	var infos []os.FileInfo
	for _, path := range c.files() {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (c *certificates) same(infos []os.FileInfo) bool {
	return slices.EqualFunc(infos, c.infos, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) &&
			c.readAt.Sub(b.ModTime()) >= stampResolution
	})
}

// load reads all files and puts them into force. Unchanged contents keep the
// configuration, and with it the sessions that clients want to resume.
func (c *certificates) load() error {
	infos, err := c.stat()
	if err != nil {
		return err
	}
	readAt := time.Now()
	var contents [][]byte
	for _, path := range c.files() {
		content, err := regular.ReadFile(path, maxTLSFile)
		if err != nil {
			return err
		}
		contents = append(contents, content)
	}
	c.infos, c.readAt = infos, readAt
	if slices.EqualFunc(contents, c.contents, bytes.Equal) {
		return nil
	}
	config, err := c.build(contents)
	if err != nil {
		return err
	}
	if c.contents != nil {
		c.log.Info("the TLS files were read again", zap.String("certificate", c.o.Certificate))
	}
	c.contents = contents
	c.current.Store(config)
	return nil
}

func (c *certificates) build(contents [][]byte) (*tls.Config, error) {
	config := c.base.Clone()
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil && strings.Contains(err.Error(), "private key") && strings.Contains(err.Error(), "does not match") {
		return nil, fmt.Errorf("the key %s is not that of the certificate %s (%w)", c.o.Key, c.o.Certificate, err)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w", c.o.Certificate, c.o.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	if len(c.o.ClientCAs) == 0 {
		return config, nil
	}
	config.ClientCAs = x509.NewCertPool()
	for i, path := range c.o.ClientCAs {
		if !config.ClientCAs.AppendCertsFromPEM(contents[2+i]) {
			return nil, fmt.Errorf("%s holds no certificate of a client CA", path)
		}
	}
	return config, nil
}
