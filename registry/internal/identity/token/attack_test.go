package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// authority is a certificate with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newCertificate(t testing.TB, name string, by *authority, key crypto.Signer) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func thumbprint(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

func libtrustID(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return fingerprint(der)
}

func pemOf(certs ...*authority) (out []byte) {
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})...)
	}
	return out
}

// good is claims that count.
func good() map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": "auth", "aud": "registry", "sub": "alice", "exp": now + 60, "nbf": now - 1, "iat": now, "jti": "x",
		"access": []map[string]any{{"type": "repository", "name": "a/b", "actions": []string{"pull"}}},
	}
}

func change(key string, value any) map[string]any {
	c := good()
	if value == nil {
		delete(c, key)
	} else {
		c[key] = value
	}
	return c
}

// sign makes a token by the library; header adds to its header.
func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, claims any, header map[string]any) string {
	t.Helper()
	o := &jose.SignerOptions{}
	for k, v := range header {
		o.WithHeader(jose.HeaderKey(k), v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// signBytes signs what need not be claims.
func signBytes(t testing.TB, key *ecdsa.PrivateKey, id, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// forge puts a token together by hand.
func forge(header, claims any, signature []byte) string {
	encode := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return encode(header) + "." + encode(claims) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func chain(certs ...*authority) (list []string) {
	for _, c := range certs {
		list = append(list, base64.StdEncoding.EncodeToString(c.cert.Raw))
	}
	return list
}

func TestVerify_TokensAndAttacks(t *testing.T) {
	root := newCertificate(t, "root", nil, ecKey(t))
	leaf := newCertificate(t, "leaf", root, ecKey(t))
	foreignRoot := newCertificate(t, "root", nil, ecKey(t))
	foreign := newCertificate(t, "leaf", foreignRoot, ecKey(t))
	rsaCert := newCertificate(t, "rsa", nil, rsaKey(t))
	setKey, stranger := ecKey(t), ecKey(t)
	secret := []byte(strings.Repeat("s", 64))
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: setKey.Public(), KeyID: "set", Algorithm: "ES256", Use: "sig"},
		{Key: secret, KeyID: "shared"},
		{Key: ecKey(t).Public(), KeyID: "enc", Use: "enc"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(pemOf(root, rsaCert), set)
	if err != nil {
		t.Fatal(err)
	}
	v := NewVerifier(VerifierOptions{Issuer: "auth", Audience: "registry", Keys: func() *Keys { return keys }})
	onlyES := NewVerifier(VerifierOptions{Issuer: "auth", Audience: "registry", Algorithms: []string{"ES256"}, Keys: func() *Keys { return keys }})

	rsaPublic, err := x509.MarshalPKIXPublicKey(rsaCert.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: rsaPublic})
	rootID, rsaID := thumbprint(t, root.key.Public()), thumbprint(t, rsaCert.key.Public())
	now := time.Now().Unix()
	bySet := func(claims any) string { return sign(t, jose.ES256, setKey, claims, map[string]any{"kid": "set"}) }
	stripped := func(raw string) string { return raw[:strings.LastIndexByte(raw, '.')+1] }
	jwk := func(key any, id string, certs ...*authority) jose.JSONWebKey {
		k := jose.JSONWebKey{Key: key, KeyID: id}
		for _, c := range certs {
			k.Certificates = append(k.Certificates, c.cert)
		}
		return k
	}
	embedded := func(key *ecdsa.PrivateKey, k jose.JSONWebKey) string {
		return sign(t, jose.ES256, key, good(), map[string]any{"jwk": k})
	}

	attacks := 0
	for _, tt := range []struct {
		name  string
		token string
		valid bool
	}{
		{"key of the JWK set", bySet(good()), true},
		{"certificate by its RFC 7638 thumbprint", sign(t, jose.ES256, root.key, good(), map[string]any{"kid": rootID}), true},
		{"certificate by libtrust's fingerprint", sign(t, jose.RS256, rsaCert.key, good(), map[string]any{"kid": libtrustID(t, rsaCert.key.Public())}), true},
		{"PS256", sign(t, jose.PS256, rsaCert.key, good(), map[string]any{"kid": rsaID}), true},
		{"chain in x5c", sign(t, jose.ES256, leaf.key, good(), map[string]any{"x5c": chain(leaf, root)}), true},
		{"chain in x5c without its root", sign(t, jose.ES256, leaf.key, good(), map[string]any{"x5c": chain(leaf)}), true},
		{"shared secret of the set", sign(t, jose.HS256, secret, good(), map[string]any{"kid": "shared"}), true},
		{"embedded key that is trusted by its id", embedded(setKey, jwk(setKey.Public(), "set")), true},
		{"audience as a list", bySet(change("aud", []string{"other", "registry"})), true},
		{"expired within the leeway", bySet(change("exp", now-5)), true},
		{"not yet valid within the leeway", bySet(change("nbf", now+55)), true},
		{"without nbf", bySet(change("nbf", nil)), true},
		{"without a subject", bySet(change("sub", nil)), true},
		{"without access", bySet(change("access", nil)), true},

		{"empty", "", false},
		{"no token", "abc", false},
		{"two parts", "a.b", false},
		{"alg none", forge(map[string]string{"alg": "none", "kid": "set"}, good(), nil), false},
		{"alg None", forge(map[string]string{"alg": "None", "kid": "set"}, good(), nil), false},
		{"alg NONE with a key id of the set", forge(map[string]string{"alg": "NONE", "kid": "shared"}, good(), []byte("x")), false},
		{"no alg", forge(map[string]string{"kid": "set"}, good(), nil), false},
		{"signature cut off", stripped(bySet(good())), false},
		{"signature of another token", stripped(bySet(good())) + strings.Split(bySet(change("sub", "bob")), ".")[2], false},
		{"claims of another token", strings.Split(bySet(good()), ".")[0] + "." + strings.Split(bySet(change("sub", "root")), ".")[1] + "." + strings.Split(bySet(good()), ".")[2], false},
		{"HS256 with the public key as PEM", sign(t, jose.HS256, rsaPEM, good(), map[string]any{"kid": rsaID}), false},
		{"HS256 with the public key as DER", sign(t, jose.HS256, rsaPublic, good(), map[string]any{"kid": rsaID}), false},
		{"HS256 with the certificate", sign(t, jose.HS256, rsaCert.cert.Raw, good(), map[string]any{"kid": rsaID}), false},
		{"HS256 with the public key in x5c", sign(t, jose.HS256, rsaPublic, good(), map[string]any{"x5c": chain(rsaCert)}), false},
		{"HS256 with an empty secret", sign(t, jose.HS256, []byte(strings.Repeat("\x00", 32)), good(), map[string]any{"kid": "set"}), false},
		{"embedded key of a stranger", embedded(stranger, jwk(stranger.Public(), "")), false},
		{"embedded key under a trusted id", embedded(stranger, jwk(stranger.Public(), "set")), false},
		{"embedded key under a trusted thumbprint", embedded(stranger, jwk(stranger.Public(), rootID)), false},
		{"embedded key with a foreign chain", embedded(foreign.key.(*ecdsa.PrivateKey), jwk(foreign.key.Public(), "", foreign, foreignRoot)), false},
		{"trusted key id of a stranger's signature", sign(t, jose.ES256, stranger, good(), map[string]any{"kid": "set"}), false},
		{"foreign x5c", sign(t, jose.ES256, foreign.key, good(), map[string]any{"x5c": chain(foreign, foreignRoot)}), false},
		{"foreign x5c with a trusted key id", sign(t, jose.ES256, foreign.key, good(), map[string]any{"x5c": chain(foreign, foreignRoot), "kid": "set"}), false},
		{"trusted x5c with another signature", sign(t, jose.ES256, stranger, good(), map[string]any{"x5c": chain(leaf, root)}), false},
		{"foreign leaf before the trusted root", sign(t, jose.ES256, foreign.key, good(), map[string]any{"x5c": chain(foreign, root)}), false},
		{"empty x5c and no key id", sign(t, jose.ES256, setKey, good(), map[string]any{"x5c": []string{}}), false},
		{"unknown key id", sign(t, jose.ES256, setKey, good(), map[string]any{"kid": "other"}), false},
		{"no key id", sign(t, jose.ES256, setKey, good(), nil), false},
		{"key id as a path", sign(t, jose.HS256, []byte(strings.Repeat("\x00", 32)), good(), map[string]any{"kid": "../../../dev/null"}), false},
		{"key id as SQL", sign(t, jose.ES256, stranger, good(), map[string]any{"kid": "x' UNION SELECT 'set"}), false},
		{"key id as a URL, and jku", sign(t, jose.ES256, stranger, good(), map[string]any{"kid": "https://example.org/k", "jku": "https://example.org/jwks"}), false},
		{"key for encryption", sign(t, jose.ES256, stranger, good(), map[string]any{"kid": "enc"}), false},
		{"another algorithm than the key's", sign(t, jose.RS256, rsaCert.key, good(), map[string]any{"kid": "set"}), false},
		{"unknown critical header", forge(map[string]any{"alg": "ES256", "kid": "set", "crit": []string{"x"}, "x": 1}, good(), make([]byte, 64)), false},
		{"signature of zeros", forge(map[string]any{"alg": "ES256", "kid": "set"}, good(), make([]byte, 64)), false},
		{"expired", bySet(change("exp", now-90)), false},
		{"without an end", bySet(change("exp", nil)), false},
		{"end as text", bySet(change("exp", "tomorrow")), false},
		{"end beyond all numbers, before now", bySet(change("exp", -1e300)), false},
		{"not yet valid", bySet(change("nbf", now+90)), false},
		{"wrong issuer", bySet(change("iss", "other")), false},
		{"without an issuer", bySet(change("iss", nil)), false},
		{"issuer as a list", bySet(change("iss", []string{"auth"})), false},
		{"wrong audience", bySet(change("aud", "other")), false},
		{"without an audience", bySet(change("aud", nil)), false},
		{"audience as the beginning of ours", bySet(change("aud", "regis")), false},
		{"access as text", bySet(change("access", "all")), false},
		{"claims that are no object", signBytes(t, setKey, "set", `["auth"]`), false},
		{"huge", bySet(change("sub", strings.Repeat("x", MaxSize))), false},
		{"more access entries than sense", bySet(change("access", make([]map[string]any, maxScopes+1))), false},
		{"JSON form of a signature", `{"payload":"e30","signatures":[]}`, false},
		{"encrypted token", "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA", false},
	} {
		if !tt.valid {
			attacks++
		}
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the second time from memory
				claims, err := v.Verify(tt.token, time.Now())
				if (err == nil) != tt.valid {
					t.Fatalf("got %+v, %v; want valid %v", claims, err, tt.valid)
				}
				if err != nil && !errors.Is(err, ErrInvalid) {
					t.Errorf("%v is not ErrInvalid", err)
				}
			}
		})
	}
	if attacks < 40 {
		t.Errorf("only %d attacks", attacks)
	}
	for name, raw := range map[string]string{
		"RS256": sign(t, jose.RS256, rsaCert.key, good(), map[string]any{"kid": rsaID}),
		"HS256": sign(t, jose.HS256, secret, good(), map[string]any{"kid": "shared"}),
	} {
		if _, err := onlyES.Verify(raw, time.Now()); err == nil {
			t.Errorf("%s is accepted although only ES256 may be", name)
		}
	}
}

func TestVerify_RememberedTokensEndWithTimeAndKeys(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := NewKeys(map[string]ed25519.PublicKey{"k": public})
	v := NewVerifier(VerifierOptions{Audience: "registry", Keys: func() *Keys { return keys }})
	now := time.Now()
	raw, err := Sign(&Claims{Subject: "alice", Audience: Audience{"registry"}, Expires: At(now.Add(time.Minute)), Access: []Scope{{Type: "repository", Name: "a", Actions: []string{"pull"}}}}, "k", private)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(raw, now); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(raw, now.Add(time.Minute+Leeway+2*time.Second)); err == nil {
		t.Error("a remembered token counts after its end")
	}
	keys = NewKeys(nil)
	if _, err := v.Verify(raw, now); err == nil {
		t.Error("a remembered token counts after its key is gone")
	}
}

// A certificate of the bundle counts as long as it is valid, whichever way a token names
// its key, and for a remembered token, too.
func TestVerify_ExpiredCertificate(t *testing.T) {
	signer := newCertificate(t, "signer", nil, ecKey(t))
	keys, err := ParseKeys(pemOf(signer), nil)
	if err != nil {
		t.Fatal(err)
	}
	claims := good()
	claims["exp"] = time.Now().Add(100 * 24 * time.Hour).Unix()
	for name, header := range map[string]map[string]any{
		"thumbprint": {"kid": thumbprint(t, signer.key.Public())},
		"libtrust":   {"kid": libtrustID(t, signer.key.Public())},
		"chain":      {"x5c": chain(signer)},
	} {
		v := NewVerifier(VerifierOptions{Audience: "registry", Keys: func() *Keys { return keys }})
		raw := sign(t, jose.ES256, signer.key, claims, header)
		if _, err := v.Verify(raw, time.Now().Add(-time.Hour-time.Minute)); err == nil {
			t.Errorf("%s: it counts before the certificate does", name)
		}
		if _, err := v.Verify(raw, time.Now()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, ok := v.valid.Get(raw); !ok {
			t.Errorf("%s: it isn't remembered", name)
		}
		if _, err := v.Verify(raw, signer.cert.NotAfter.Add(time.Second)); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("%s: it counts after the certificate has expired: %v", name, err)
		}
	}
}

// Tokens that anybody gets, anonymous ones and those with many scopes, don't fill the
// memory; those that are remembered are remembered again after a change of the keys.
func TestVerify_RemembersSmallTokens(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := NewKeys(map[string]ed25519.PublicKey{"k": public})
	v := NewVerifier(VerifierOptions{Audience: "registry", Keys: func() *Keys { return keys }})
	for _, tt := range []struct {
		subject string
		size    int
		want    bool
	}{{"alice", maxRememberedSize, false}, {"", 10, false}, {"alice", 10, true}} {
		raw, err := Sign(&Claims{Subject: tt.subject, Audience: Audience{"registry"}, Expires: At(time.Now().Add(time.Minute)), ID: strings.Repeat("x", tt.size)}, "k", private)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := v.Verify(raw, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if _, got := v.valid.Get(raw); got != tt.want {
			t.Errorf("%q, %d bytes: the token is remembered: %v", tt.subject, tt.size, got)
		}
		keys = NewKeys(map[string]ed25519.PublicKey{"k": public})
		if _, err := v.Verify(raw, time.Now()); err != nil {
			t.Fatal(err)
		}
		if r, ok := v.valid.Get(raw); ok && r.keys != keys {
			t.Error("a token is remembered with the former keys")
		}
	}
}

func TestCovers(t *testing.T) {
	c := Claims{Access: []Scope{
		{Type: "repository", Name: "a", Actions: []string{"pull"}},
		{Type: "repository", Name: "b", Actions: []string{"*"}},
		{Type: "registry", Name: "catalog", Actions: []string{"*"}},
	}}
	for _, tt := range []struct {
		typ, name, action string
		want              bool
	}{
		{"repository", "a", "pull", true},
		{"repository", "a", "push", false},
		{"repository", "a/x", "pull", false},
		{"repository", "", "pull", false},
		{"repository", "b", "delete", true},
		{"registry", "catalog", "*", true},
		{"registry", "a", "pull", false},
		{"repository", "*", "pull", false},
	} {
		if got := c.Covers(tt.typ, tt.name, tt.action); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestParseKeys_Refuses(t *testing.T) {
	for name, tt := range map[string]struct{ bundle, set string }{
		"nothing":                {"", `{"keys":[]}`},
		"no certificate":         {"hello", ""},
		"a damaged certificate":  {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""},
		"no JSON":                {"", "keys"},
		"a key of no known kind": {"", `{"keys":[{"kty":"XX","kid":"a"}]}`},
		"only keys without id":   {"", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`},
	} {
		var set []byte
		if tt.set != "" {
			set = []byte(tt.set)
		}
		if _, err := ParseKeys([]byte(tt.bundle), set); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzVerify(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	keys := NewKeys(map[string]ed25519.PublicKey{"k": public})
	v := NewVerifier(VerifierOptions{Audience: "registry", Keys: func() *Keys { return keys }})
	raw, _ := Sign(&Claims{Audience: Audience{"registry"}, Expires: At(time.Now().Add(time.Hour))}, "k", private)
	f.Add(raw)
	f.Add(forge(map[string]string{"alg": "none"}, good(), nil))
	f.Fuzz(func(t *testing.T, other string) {
		if _, err := v.Verify(other, time.Now()); err == nil && strings.TrimRight(other, "=") != raw {
			t.Errorf("%q is accepted", other)
		}
	})
}

func BenchmarkVerify_Remembered(b *testing.B) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	keys := NewKeys(map[string]ed25519.PublicKey{"k": public})
	v := NewVerifier(VerifierOptions{Audience: "registry", Keys: func() *Keys { return keys }})
	raw, _ := Sign(&Claims{Audience: Audience{"registry"}, Expires: At(time.Now().Add(time.Hour))}, "k", private)
	for b.Loop() {
		if _, err := v.Verify(raw, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
