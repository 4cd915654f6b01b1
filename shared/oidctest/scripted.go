package oidctest

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Scripted answers as a provider that logs its one user in at once. Tests make its answers wrong.
type Scripted struct {
	*httptest.Server
	key    *rsa.PrivateKey
	Signer *rsa.PrivateKey
	Claims map[string]any              // of the last login's ID token
	Info   map[string]any              // at the user info endpoint; nil = it fails
	Form   url.Values                  // of the last exchange
	Alg    string                      // of the ID token's signature
	Broken map[string]http.HandlerFunc // in place of what is at a path

	// Change makes a login wrong, unless it is nil: what is in Claims, or what the browser brings back.
	Change func(p *Scripted, back url.Values)
}

// providerKey makes the key of all providers once: that takes a second.
var providerKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// NewScripted starts a provider that ends with the test. Anna of the group dev logs in at once.
func NewScripted(t *testing.T) *Scripted {
	t.Helper()
	key := providerKey()
	p := &Scripted{key: key, Signer: key, Alg: "RS256"}
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
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+p.Authorize(q).Encode(), http.StatusSeeOther)
	})
	answer("/token", func(r *http.Request) any {
		_ = r.ParseForm()
		p.Form = r.PostForm
		return map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(t)}
	})
	answer("/info", func(*http.Request) any {
		if p.Info == nil {
			return nil
		}
		return p.Info
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := p.Broken[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Authorize logs a browser in that comes with the query q, and returns the query with which it goes back.
func (p *Scripted) Authorize(q url.Values) (back url.Values) {
	now := time.Now()
	p.Claims = map[string]any{
		"iss": p.URL, "aud": q.Get("client_id"), "sub": "1", "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(),
		"nonce": q.Get("nonce"), "preferred_username": "anna", "groups": []string{"dev"},
	}
	back = url.Values{"code": {"c"}, "state": {q.Get("state")}}
	if p.Change != nil {
		p.Change(p, back)
	}
	return back
}

func (p *Scripted) sign(t *testing.T) string {
	t.Helper()
	payload, err := json.Marshal(p.Claims)
	if err != nil {
		t.Error(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"`+p.Alg+`","kid":"1"}`)) + "." + encode(payload)
	switch p.Alg {
	case "none":
		return text + "."
	case "HS256":
		h := hmac.New(sha256.New, []byte(Secret))
		h.Write([]byte(text))
		return text + "." + encode(h.Sum(nil))
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.Signer, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return text + "." + encode(signature)
}
