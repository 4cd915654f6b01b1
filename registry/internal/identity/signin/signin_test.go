package signin

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// provider answers as a provider at which somebody has just logged in.
type provider struct {
	*httptest.Server
	key    *rsa.PrivateKey
	signer *rsa.PrivateKey
	claims map[string]any // of the ID token
	info   map[string]any // at the user info endpoint; nil = it fails
	form   url.Values     // of the last exchange
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, signer: key}
	mux := http.NewServeMux()
	answer := func(path string, doc func(*http.Request) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			d := doc(r)
			if d == nil {
				http.Error(w, "broken", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(d)
		})
	}
	answer("/.well-known/openid-configuration", func(*http.Request) any {
		return map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/info",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		}
	})
	answer("/keys", func(*http.Request) any {
		encode := base64.RawURLEncoding.EncodeToString
		return map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}}}
	})
	answer("/token", func(r *http.Request) any {
		_ = r.ParseForm()
		p.form = r.PostForm
		return map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(t)}
	})
	answer("/info", func(*http.Request) any {
		if p.info == nil {
			return nil
		}
		return p.info
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) sign(t *testing.T) string {
	t.Helper()
	payload, err := json.Marshal(p.claims)
	if err != nil {
		t.Error(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.signer, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return text + "." + encode(signature)
}

// TestFinish: only what the provider has signed for this registry and this login lets anybody in,
// and nobody loses the groups that a rule may deny something to.
func TestFinish(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const callback = "https://registry.example.org/ui/login/callback"
	const refused, unavailable = "refused", "unavailable"
	for what, tt := range map[string]struct {
		change func(p *provider, back url.Values)
		want   string // "" = anna of the groups is let in
		groups []string
	}{
		"right":               {func(*provider, url.Values) {}, "", []string{"dev"}},
		"another state":       {func(_ *provider, back url.Values) { back.Set("state", "x") }, refused, nil},
		"no state":            {func(_ *provider, back url.Values) { back.Del("state") }, refused, nil},
		"refused there":       {func(_ *provider, back url.Values) { back.Set("error", "access_denied") }, refused, nil},
		"another nonce":       {func(p *provider, _ url.Values) { p.claims["nonce"] = "x" }, refused, nil},
		"no nonce":            {func(p *provider, _ url.Values) { delete(p.claims, "nonce") }, refused, nil},
		"another audience":    {func(p *provider, _ url.Values) { p.claims["aud"] = "other" }, refused, nil},
		"another issuer":      {func(p *provider, _ url.Values) { p.claims["iss"] = "https://evil.example" }, refused, nil},
		"expired":             {func(p *provider, _ url.Values) { p.claims["exp"] = time.Now().Add(-time.Hour).Unix() }, refused, nil},
		"another key":         {func(p *provider, _ url.Values) { p.signer = other }, refused, nil},
		"a name with a colon": {func(p *provider, _ url.Values) { p.claims["preferred_username"] = "robot:ci" }, refused, nil},
		"no name": {func(p *provider, _ url.Values) {
			p.claims["preferred_username"] = ""
			p.info = map[string]any{"sub": "1"}
		}, refused, nil},
		"groups elsewhere": {func(p *provider, _ url.Values) {
			delete(p.claims, "groups")
			p.info = map[string]any{"sub": "1", "groups": []string{"ops"}, "preferred_username": "root"}
		}, "", []string{"ops"}},
		"groups of another": {func(p *provider, _ url.Values) {
			delete(p.claims, "groups")
			p.info = map[string]any{"sub": "2", "groups": []string{"ops"}}
		}, refused, nil},
		"no groups in reach": {func(p *provider, _ url.Values) { delete(p.claims, "groups") }, unavailable, nil},
	} {
		t.Run(what, func(t *testing.T) {
			p := newProvider(t)
			o := New(Options{Issuer: p.URL, ClientID: "registry", NameClaim: "preferred_username", GroupsClaim: "groups"})
			to, attempt, err := o.Begin(t.Context(), callback)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(to)
			if err != nil || u.Query().Get("code_challenge_method") != "S256" || u.Query().Get("redirect_uri") != callback {
				t.Fatalf("begins at %s, %v", to, err)
			}
			p.claims = map[string]any{
				"iss": p.URL, "aud": "registry", "sub": "1", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
				"nonce": attempt.Nonce, "preferred_username": "anna", "groups": []string{"dev"},
			}
			back := url.Values{"code": {"c"}, "state": {attempt.State}}
			tt.change(p, back)
			who, err := o.Finish(t.Context(), callback, attempt, back.Get)
			if tt.want == "" {
				if err != nil || who.Name != "anna" || !slices.Equal(who.Groups, tt.groups) || p.form.Get("code_verifier") != attempt.Verifier {
					t.Errorf("got %+v, %v by %v", who, err, p.form)
				}
				return
			}
			if target := (*RefusedError)(nil); errors.As(err, &target) != (tt.want == refused) || errors.Is(err, ErrUnavailable) != (tt.want == unavailable) {
				t.Errorf("got %+v, %v", who, err)
			}
		})
	}
}

// A person named by email is let in only if the provider has verified the address.
func TestPerson_Email(t *testing.T) {
	p := New(Options{NameClaim: "email"})
	for _, tt := range []struct {
		verified any
		ok       bool
	}{{true, true}, {"true", true}, {false, false}, {"false", false}, {nil, false}, {1, false}} {
		claims := map[string]any{"email": "anna@example.org", "email_verified": tt.verified}
		who, err := p.person(claims)
		if ok := err == nil && who.Name == "anna@example.org"; ok != tt.ok {
			t.Errorf("verified %v: %+v, %v", tt.verified, who, err)
		}
		if missing := p.missing(claims); missing != (tt.verified == nil) {
			t.Errorf("verified %v: missing is %v", tt.verified, missing)
		}
	}
}

// TestBegin_Unreachable: a provider that doesn't answer is asked once for all who wait for it.
func TestBegin_Unreachable(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "away", http.StatusBadGateway)
	}))
	defer server.Close()
	p := New(Options{Issuer: server.URL, ClientID: "registry"})
	p.pause = time.Hour
	for range 3 {
		if _, _, err := p.Begin(t.Context(), "https://registry.example.org"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("begins: %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
