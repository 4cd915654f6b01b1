package oidc

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// fake answers as an issuer, or not at all.
type fake struct {
	key    ed25519.PublicKey
	silent bool
	down   bool
	asked  int    // while it is down
	keys   string // URL of the keys; "" = https://ci.example.org/keys
	pad    int    // bytes before the keys
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if f.down {
		f.asked++
		return nil, io.ErrUnexpectedEOF
	}
	var answer any = map[string]string{"issuer": "https://ci.example.org", "jwks_uri": cmp.Or(f.keys, "https://ci.example.org/keys")}
	if r.URL.Path == "/keys" {
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key, KeyID: "known"}}}
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat(" ", f.pad) + string(body))), Request: r}, err
}

func sign(t *testing.T, private ed25519.PrivateKey, id string, expires time.Time) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://ci.example.org", "exp": expires.Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// What an issuer answers is bounded, and its keys come by https only.
func TestVerify_Bounds(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw := sign(t, private, "known", time.Now().Add(time.Hour))
	for what, f := range map[string]*fake{
		"":                      {key: public, pad: maxDocument / 2},
		"a large document":      {key: public, pad: maxDocument},
		"keys without https":    {key: public, keys: "http://ci.example.org/keys"},
		"keys at another place": {key: public, keys: "ftp://ci.example.org/keys"},
	} {
		i := NewIssuers([]string{"https://ci.example.org"})
		i.known["https://ci.example.org"].fetch.RoundTripper = f
		if _, err := i.Verify(t.Context(), raw, time.Now()); (err == nil) != (what == "") || what != "" && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Tokens of unknown keys, while the issuer is silent, hold up no others.
func TestVerify_KnownKeysDoNotWait(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		expires := began.Add(24 * time.Hour)
		known, unknown := sign(t, private, "known", expires), sign(t, private, "unknown", expires)
		issuer := &fake{key: public}
		i := NewIssuers([]string{"https://ci.example.org"})
		i.known["https://ci.example.org"].fetch.RoundTripper = issuer
		if _, err := i.Verify(t.Context(), known, time.Now()); err != nil {
			t.Fatal(err)
		}
		issuer.silent = true
		for _, later := range []time.Duration{minPause, keepKeys} { // the keys are fresh, then old
			time.Sleep(later)
			failed := make(chan error, 1)
			go func() {
				_, err := i.Verify(t.Context(), unknown, time.Now())
				failed <- err
			}()
			synctest.Wait() // for the issuer
			asked := time.Now()
			if _, err := i.Verify(t.Context(), known, time.Now()); err != nil || time.Since(asked) != 0 {
				t.Errorf("after %v: %v after %v", later, err, time.Since(asked))
			}
			if err := <-failed; !errors.Is(err, ErrUnavailable) {
				t.Errorf("an unknown key: %v", err)
			}
		}
	})
}

// An issuer that failed is asked again after a pause: tokens that waited for the first answer
// don't wait for another one each.
func TestVerify_FailedIssuerRests(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	raw := sign(t, private, "known", began.Add(time.Hour))
	issuer := &fake{down: true}
	i := NewIssuers([]string{"https://ci.example.org"})
	i.known["https://ci.example.org"].fetch.RoundTripper = issuer
	for _, c := range []struct {
		later time.Duration
		asked int
	}{{0, 1}, {minPause - 1, 1}, {minPause, 2}} {
		if _, err := i.Verify(t.Context(), raw, began.Add(c.later)); !errors.Is(err, ErrUnavailable) || issuer.asked != c.asked {
			t.Errorf("after %v: %v, asked %d times", c.later, err, issuer.asked)
		}
	}
}
