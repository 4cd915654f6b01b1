package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// pair is a self-signed certificate with its key.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{"localhost"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IsCA:         true,
		KeyUsage:     x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// save writes the pair as dir/name.crt and dir/name.key.
func (p pair) save(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, content := range map[string][]byte{cert: p.cert, key: p.key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// handshake returns the name in the certificate that the server shows.
func handshake(t *testing.T, s *Server, config *tls.Config) (string, error) {
	t.Helper()
	config.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", s.Addr().String(), config)
	if err != nil {
		return "", err
	}
	defer c.Close()
	// In TLS 1.3 a refused client certificate shows only after the handshake.
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return "", err
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// While only one of the two files is replaced, the former pair stays in use.
func TestCertificatesAreReloaded(t *testing.T) {
	dir := t.TempDir()
	cert, key := newPair(t, "first").save(t, dir, "server")
	files, err := openCertificates(TLS{Certificate: cert, Key: key}, &tls.Config{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	second := newPair(t, "second")
	for _, step := range []struct {
		path    string
		content []byte
		want    string
	}{{cert, second.cert, "first"}, {key, second.key, "second"}} {
		if err := os.WriteFile(step.path, step.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := files.Reload(); (err == nil) != (step.want == "second") {
			t.Errorf("reload: %v", err)
		}
		leaf, err := x509.ParseCertificate(files.Get().Certificates[0].Certificate[0])
		if err != nil || leaf.Subject.CommonName != step.want {
			t.Errorf("shows %q, want %q (%v)", leaf.Subject.CommonName, step.want, err)
		}
	}
}

func TestReloadOverTheWire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := newPair(t, "old").save(t, dir, "server")
	s := serve(t, Options{Handler: http.HandlerFunc(hello), TLS: &TLS{Certificate: cert, Key: key}})
	if got, err := handshake(t, s, &tls.Config{}); got != "old" {
		t.Fatalf("shows %q, %v", got, err)
	}
	newPair(t, "new").save(t, dir, "server")
	for deadline := time.Now().Add(4 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if got, _ := handshake(t, s, &tls.Config{}); got == "new" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not shown after 4 s")
		}
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := newPair(t, "x").save(t, dir, "server")
	plain, secure := &http.Protocols{}, &http.Protocols{}
	plain.SetUnencryptedHTTP2(true)
	secure.SetHTTP1(true)
	secure.SetHTTP2(true)
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}
	for _, c := range []struct {
		name   string
		o      Options
		scheme string
		client *http.Protocols
		proto  string
	}{
		{"tls", Options{TLS: &TLS{Certificate: cert, Key: key}}, "https", secure, "HTTP/2.0"},
		{"disabled", Options{TLS: &TLS{Certificate: cert, Key: key}, DisableHTTP2: true}, "https", secure, "HTTP/1.1"},
		{"h2c", Options{H2C: true}, "http", plain, "HTTP/2.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Handler = http.HandlerFunc(echo)
			s := serve(t, c.o)
			client := &http.Client{Transport: &http.Transport{Protocols: c.client, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			sent := bytes.Repeat([]byte("0123456789"), 100_000)
			resp, err := client.Post(c.scheme+"://"+s.Addr().String(), "", bytes.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, sent) || resp.Proto != c.proto {
				t.Errorf("%s, %d bytes, %v", resp.Proto, len(got), err)
			}
		})
	}
}

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key := newPair(t, "x").save(t, dir, "server")
	known, stranger := newPair(t, "known"), newPair(t, "stranger")
	ca, _ := known.save(t, dir, "ca")
	with := func(p pair) *tls.Config {
		c, err := tls.X509KeyPair(p.cert, p.key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }}
	}
	for _, c := range []struct {
		name, mode          string
		cas                 []string
		none, known, unknwn bool
	}{
		{"no CAs", "", nil, true, true, true},
		{"default with CAs", "", []string{ca}, false, true, false},
		{"any", "require-any-client-cert", nil, false, true, true},
		{"if given", "verify-client-cert-if-given", []string{ca}, true, true, false},
		{"request", "request-client-cert", nil, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{Handler: http.HandlerFunc(hello), TLS: &TLS{Certificate: cert, Key: key, ClientCAs: c.cas, ClientAuth: c.mode}})
			for name, try := range map[string]struct {
				config *tls.Config
				want   bool
			}{"none": {&tls.Config{}, c.none}, "known": {with(known), c.known}, "stranger": {with(stranger), c.unknwn}} {
				if _, err := handshake(t, s, try.config); (err == nil) != try.want {
					t.Errorf("%s: got %v, want accepted %v", name, err, try.want)
				}
			}
		})
	}
}

func TestTLSVersionsAndSuites(t *testing.T) {
	cert, key := newPair(t, "x").save(t, t.TempDir(), "server")
	try := func(o TLS, client *tls.Config) error {
		o.Certificate, o.Key = cert, key
		s := serve(t, Options{Handler: http.HandlerFunc(hello), TLS: &o})
		_, err := handshake(t, s, client)
		return err
	}
	if try(TLS{}, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}) == nil {
		t.Error("TLS 1.1 is taken by default")
	}
	if try(TLS{MinVersion: "tls1.3"}, &tls.Config{MaxVersion: tls.VersionTLS12}) == nil {
		t.Error("TLS 1.2 is taken where 1.3 is asked")
	}
	suites := TLS{CipherSuites: []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}}
	only := func(id uint16) *tls.Config {
		return &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{id}}
	}
	if err := try(suites, only(tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384)); err != nil {
		t.Error(err)
	}
	if try(suites, only(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)) == nil {
		t.Error("a cipher suite that is not listed is taken")
	}
}

func TestTLSErrors(t *testing.T) {
	dir := t.TempDir()
	cert, key := newPair(t, "x").save(t, dir, "server")
	_, otherKey := newPair(t, "y").save(t, dir, "other")
	for _, c := range []struct {
		name, want string
		o          TLS
	}{
		{"version", "tls1.4", TLS{MinVersion: "tls1.4"}},
		{"suite", "TLS_NONE", TLS{CipherSuites: []string{"TLS_NONE"}}},
		{"mode", "perhaps", TLS{ClientAuth: "perhaps"}},
		{"mode without CAs", "needs client CAs", TLS{ClientAuth: "require-and-verify-client-cert"}},
		{"no such file", "nothing.crt", TLS{Certificate: filepath.Join(dir, "nothing.crt")}},
		{"wrong key", "other.key", TLS{Key: otherKey}},
		{"CA without certificates", "server.key", TLS{ClientCAs: []string{key}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Certificate == "" {
				c.o.Certificate = cert
			}
			if c.o.Key == "" {
				c.o.Key = key
			}
			_, err := Listen(Options{Addr: "127.0.0.1:0", TLS: &c.o})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
