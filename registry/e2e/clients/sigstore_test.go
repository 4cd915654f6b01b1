package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// sigstore is a private deployment: Fulcio with a certificate authority in memory, a timestamp authority, and an OIDC issuer.
type sigstore struct {
	*httptest.Server // the issuer
	t                *testing.T
	key              *ecdsa.PrivateKey
	fulcio, tsa      string // URLs
	root, services   string // files of cosign
}

func startSigstore(t *testing.T) *sigstore {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &sigstore{t: t, key: key, root: filepath.Join(dir, "trusted_root.json"), services: filepath.Join(dir, "services.json")}
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
	}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/.well-known/openid-configuration", answer(map[string]any{
		"issuer": s.URL, "jwks_uri": s.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
	}))
	mux.HandleFunc("/keys", answer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}))

	config := filepath.Join(dir, "fulcio.yaml")
	harness.WriteFile(t, config, fmt.Appendf(nil, "oidc-issuers:\n  %[1]s: {issuer-url: %[1]q, client-id: sigstore, type: email}\n", s.URL))
	start := func(addr, health, name string, args ...string) string {
		host, port, _ := net.SplitHostPort(addr)
		programtest.Start(t, exec.Command(programtest.Tool(t, name), append([]string{"serve", "--host=" + host, "--port=" + port}, args...)...), "http://"+addr+health)
		return "http://" + addr
	}
	port := func() string {
		_, port, _ := net.SplitHostPort(programtest.FreeAddr(t))
		return port
	}
	s.fulcio = start(programtest.FreeAddr(t), "/healthz", "fulcio", "--ca=ephemeralca", "--ct-log-url=", "--config-path="+config,
		"--grpc-host=127.0.0.1", "--grpc-port="+port(), "--metrics-port="+port(), "--legacy-unix-domain-socket="+filepath.Join(dir, "socket"))
	s.tsa = start(programtest.FreeAddr(t), "/ping", "timestamp-server", "--disable-ntp-monitoring") + "/api/v1/timestamp"

	chain := func(name, url string) string {
		resp, content := harness.Fetch(t, "GET", url, nil, nil)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s", url, resp.Status, content)
		}
		path := filepath.Join(dir, name)
		harness.WriteFile(t, path, content)
		return path
	}
	harness.RunTool(t, "cosign", "trusted-root", "create", "--out", s.root,
		"--fulcio=url="+s.fulcio+",certificate-chain="+chain("fulcio.pem", s.fulcio+"/api/v1/rootCert"),
		"--tsa=url="+s.tsa+",certificate-chain="+chain("tsa.pem", s.tsa+"/certchain"))
	const since = ",api-version=1,operator=test,start-time=2020-01-01T00:00:00Z"
	harness.RunTool(t, "cosign", "signing-config", "create", "--out", s.services,
		"--fulcio=url="+s.fulcio+since, "--oidc-provider=url="+s.URL+since, "--tsa=url="+s.tsa+since, "--tsa-config=ANY")
	return s
}

// token writes an ID token, as the issuer gives it to a user who logs in, and returns the path.
func (s *sigstore) token(email string) string {
	s.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: "1"}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().Unix()
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": s.URL, "sub": email, "aud": "sigstore", "iat": now, "exp": now + 300, "email": email, "email_verified": true,
	}).Serialize()
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "token")
	harness.WriteFile(s.t, path, []byte(token))
	return path
}
