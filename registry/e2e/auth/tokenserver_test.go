package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"slipway/registry/e2e/harness"
)

// tokenServer gives out tokens as the token servers of distribution's users do: ada may
// do everything, everybody else may pull. It signs by ECDSA with its certificate in the token.
type tokenServer struct {
	*httptest.Server
	t    *testing.T
	cert atomic.Pointer[signingCert]
}

type signingCert struct {
	der []byte
	key crypto.Signer
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	s := &tokenServer{t: t}
	s.newCert()
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) newCert() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "auth"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cert.Store(&signingCert{der, key})
}

func (s *tokenServer) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Load().der})
}

// env is the configuration of a registry that takes the server's tokens.
func (s *tokenServer) env(bundle string) []string {
	return []string{
		"REGISTRY_AUTH=token", "REGISTRY_AUTH_TOKEN_REALM=" + s.URL + "/token", "REGISTRY_AUTH_TOKEN_SERVICE=registry",
		"REGISTRY_AUTH_TOKEN_ISSUER=auth", "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE=" + bundle,
	}
}

func (s *tokenServer) answer(w http.ResponseWriter, r *http.Request) {
	user, password, given := r.BasicAuth()
	if given && (user != "ada" || password != "secret") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	access := []map[string]any{}
	for scope := range strings.FieldsSeq(strings.Join(r.URL.Query()["scope"], " ")) {
		parts := strings.Split(scope, ":")
		actions := []string{} // of what is refused, a scope without actions, as docker_auth has it
		for action := range strings.SplitSeq(parts[2], ",") {
			if given || action == "pull" {
				actions = append(actions, action)
			}
		}
		kind, class, _ := strings.Cut(strings.TrimSuffix(parts[0], ")"), "(")
		access = append(access, map[string]any{"type": kind, "class": class, "name": parts[1], "actions": actions})
	}
	raw, err := s.sign(user, r.URL.Query().Get("service"), access)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": raw, "access_token": raw, "expires_in": 300})
}

func (s *tokenServer) sign(user, service string, access []map[string]any) (string, error) {
	cert := s.cert.Load()
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("x5c", []string{base64.StdEncoding.EncodeToString(cert.der)})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: cert.key}, options)
	if err != nil {
		return "", err
	}
	now := time.Now().Unix()
	return jwt.Signed(signer).Claims(map[string]any{
		"iss": "auth", "sub": user, "aud": service, "exp": now + 300, "nbf": now - 10, "iat": now, "jti": "x", "access": access,
	}).Serialize()
}

// token asks for a token, for nobody if user is "", and returns the header with it.
func (s *tokenServer) token(t *testing.T, user, scopes string) http.Header {
	t.Helper()
	var header http.Header
	if user != "" {
		header = harness.BasicAuth(user, "secret")
	}
	_, answer := harness.Fetch(t, "GET", s.URL+"/token?service=registry&scope="+url.QueryEscape(scopes), header, nil)
	var issued struct{ Token string }
	if err := json.Unmarshal(answer, &issued); err != nil {
		t.Fatal(err)
	}
	return harness.Bearer(issued.Token)
}

// The registry in the place of a distribution with a token server.
func TestTokenServer(t *testing.T) {
	s := newTokenServer(t)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	harness.WriteFile(t, bundle, s.bundle())
	p := harness.StartRegistry(t, t.TempDir(), s.env(bundle)...)
	img := harness.NewImage(t, 9, 2, 1_000)
	layout := img.Layout(t, "v1")
	if resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/a/manifests/v1", nil, nil); resp.StatusCode != http.StatusUnauthorized ||
		resp.Header.Get("WWW-Authenticate") != `Bearer realm="`+s.URL+`/token",service="registry",scope="repository:a:pull"` {
		t.Errorf("without a token: %s %v %s", resp.Status, resp.Header, body)
	}
	ref := "docker://" + p.Addr
	skopeo := func(works bool, args ...string) {
		t.Helper()
		if out, err := harness.TryTool(t, nil, "skopeo", append([]string{"--insecure-policy"}, args...)...); (err == nil) != works {
			t.Errorf("skopeo %v: %v\n%s", args, err, out)
		}
	}
	skopeo(true, "copy", "--dest-tls-verify=false", "--dest-creds", "ada:secret", "oci:"+layout+":v1", ref+"/a:v1")
	skopeo(true, "copy", "--src-tls-verify=false", "--dest-tls-verify=false", "--dest-creds", "ada:secret", ref+"/a:v1", ref+"/b:v1")
	skopeo(true, "inspect", "--tls-verify=false", "--no-creds", ref+"/b:v1")
	skopeo(false, "copy", "--dest-tls-verify=false", "--dest-no-creds", "oci:"+layout+":v1", ref+"/a:v2")
	skopeo(false, "inspect", "--tls-verify=false", "--creds", "ada:wrong", ref+"/b:v1")
	skopeo(false, "delete", "--tls-verify=false", "--no-creds", ref+"/b:v1")
	skopeo(true, "delete", "--tls-verify=false", "--creds", "ada:secret", ref+"/b:v1")
	for user, want := range map[string]int{"ada": http.StatusOK, "": http.StatusUnauthorized} {
		header := s.token(t, user, "registry:catalog:*")
		if resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/_catalog", header, nil); resp.StatusCode != want || want == http.StatusOK && !strings.Contains(string(body), `"a"`) {
			t.Errorf("catalog as %q: %s %s", user, resp.Status, body)
		}
	}

	// The server gets a new key; the registry takes it when the bundle has it.
	s.newCert()
	skopeo(false, "inspect", "--tls-verify=false", "--no-creds", ref+"/a:v1")
	harness.WriteFile(t, bundle, s.bundle())
	harness.Eventually(t, "the new key counts", func() bool {
		_, err := harness.TryTool(t, nil, "skopeo", "inspect", "--tls-verify=false", "--no-creds", ref+"/a:v1")
		return err == nil
	})
}
