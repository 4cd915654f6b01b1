package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// certificate makes a certificate of 127.0.0.1 in a folder, which is its own authority, and its key, which PostgreSQL may read.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes}), 0o600),
	)
	if os.Geteuid() == 0 && err == nil { // the server runs as another user then
		var owner *user.User
		if owner, err = user.Lookup("postgres"); err == nil {
			uid, bad := strconv.Atoi(owner.Uid)
			err = errors.Join(bad, os.Chown(key, uid, -1))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// All connections are encrypted where the DSN asks for it, to the server whose certificate it names and to no other.
func testOpenPostgres_TLS(t *testing.T) {
	dir, err := os.MkdirTemp("", "pgtls") // which the server may enter, unlike that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cert, key := certificate(t, dir)
	another, _ := certificate(t, t.TempDir())
	server, err := servertest.StartPostgres(ctx, servertest.PostgresOptions{Settings: []string{"ssl=on", "ssl_cert_file=" + cert, "ssl_key_file=" + key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	for _, statement := range []string{`CREATE USER relay PASSWORD 'secret'`, `CREATE DATABASE relay OWNER relay`} {
		if err := server.Exec(ctx, "postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	open := func(root string) (*Store, error) {
		dsn := fmt.Sprintf("host=127.0.0.1 port=%d dbname=relay user=relay sslmode=verify-full sslrootcert=%s", server.Port, root)
		return OpenPostgres(ctx, Postgres{DSN: dsn, Password: "secret", Shared: true, Name: "this relay"})
	}
	s, err := open(cert)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	withRoom(t, s)
	if err := s.Insert(ctx, entry(1, "x")); err != nil {
		t.Error(err)
	}
	var all, encrypted int
	err = s.read.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'relay'`).Scan(&all, &encrypted)
	if err != nil || all == 0 || encrypted != all {
		t.Errorf("%d of %d connections are encrypted, %v", encrypted, all, err)
	}
	if s, err := open(another); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server of another authority: %v", err)
		if err == nil {
			_ = s.Close()
		}
	}
}
