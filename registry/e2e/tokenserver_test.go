package e2e

import (
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
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokenServer gives out tokens as the token servers of distribution's users do: ada may
// do everything, everybody else may pull.
type tokenServer struct {
	*httptest.Server
	t    *testing.T
	cert atomic.Pointer[signingCert]
}

type signingCert struct {
	der []byte
	key *ecdsa.PrivateKey
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

func (s *tokenServer) answer(w http.ResponseWriter, r *http.Request) {
	user, password, given := r.BasicAuth()
	if given && (user != "ada" || password != "secret") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	access := []map[string]any{}
	for scope := range strings.FieldsSeq(strings.Join(r.URL.Query()["scope"], " ")) {
		parts := strings.Split(scope, ":")
		actions := []string{"pull"}
		if given {
			actions = strings.Split(parts[2], ",")
		}
		access = append(access, map[string]any{"type": parts[0], "name": parts[1], "actions": actions})
	}
	cert := s.cert.Load()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: cert.key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("x5c", []string{base64.StdEncoding.EncodeToString(cert.der)}))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	now := time.Now().Unix()
	raw, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": "auth", "sub": user, "aud": r.URL.Query().Get("service"), "exp": now + 300, "nbf": now, "iat": now, "jti": "x", "access": access,
	}).Serialize()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": raw, "expires_in": 300})
}

// The registry in the place of a distribution with a token server.
func TestTokenServer(t *testing.T) {
	s := newTokenServer(t)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	writeFile(t, bundle, s.bundle())
	p := startSlipway(t, t.TempDir(), "REGISTRY_AUTH=token", "REGISTRY_AUTH_TOKEN_REALM="+s.URL+"/token", "REGISTRY_AUTH_TOKEN_SERVICE=registry",
		"REGISTRY_AUTH_TOKEN_ISSUER=auth", "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE="+bundle)
	img := newImage(t, 9, 2, 1_000)
	layout := img.layout(t, "v1")
	if resp, body := fetch(t, "GET", "http://"+p.addr+"/v2/a/manifests/v1", nil, nil); resp.StatusCode != http.StatusUnauthorized ||
		resp.Header.Get("WWW-Authenticate") != `Bearer realm="`+s.URL+`/token",service="registry",scope="repository:a:pull"` {
		t.Errorf("without a token: %s %v %s", resp.Status, resp.Header, body)
	}
	ref := "docker://" + p.addr
	skopeo := func(works bool, args ...string) {
		t.Helper()
		if out, err := tryTool(t, nil, "skopeo", append([]string{"--insecure-policy"}, args...)...); (err == nil) != works {
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

	// The server gets a new key; the registry takes it when the bundle has it.
	s.newCert()
	skopeo(false, "inspect", "--tls-verify=false", "--no-creds", ref+"/a:v1")
	writeFile(t, bundle, s.bundle())
	eventually(t, "the new key counts", func() bool {
		_, err := tryTool(t, nil, "skopeo", "inspect", "--tls-verify=false", "--no-creds", ref+"/a:v1")
		return err == nil
	})
}
