package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// Times are whole numbers in digits: some readers take nothing else.
func TestSign_TimesAreIntegers(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at := At(time.Unix(1795375582, 0))
	raw, err := Sign(&Claims{Expires: at, NotBefore: at, IssuedAt: at}, "k", private)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		if want := `"` + name + `":1795375582`; !strings.Contains(string(claims), want) {
			t.Errorf("%s has no %s", claims, want)
		}
	}
}
