package oidc

import (
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
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	var answer any = map[string]string{"issuer": "https://ci.example.org", "jwks_uri": "https://ci.example.org/keys"}
	if r.URL.Path == "/keys" {
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key, KeyID: "known"}}}
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, err
}

// Whoever sends tokens of keys that nobody knows, while the issuer is silent, holds nobody
// else up.
func TestVerify_KnownKeysDoNotWait(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sign := func(id string) string {
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: id}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://ci.example.org", "exp": began.Add(24 * time.Hour).Unix()}).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		known, unknown := sign("known"), sign("unknown")
		issuer := &fake{key: public}
		i := NewIssuers([]string{"https://ci.example.org"})
		i.client.Transport = issuer
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
