package account

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/shared/config"
)

// Bounds of a secret, in characters and in bytes.
const (
	minSecret = 16
	maxSecret = 256
)

// secrets encrypts the secrets of applications in the database.
type secrets struct {
	aead cipher.AEAD // nil without a key
}

// newSecrets derives the key of the secrets from another one. Without a key no secret can be set or read.
func newSecrets(key []byte) (secrets, error) {
	if len(key) == 0 {
		return secrets{}, nil
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "slipway secrets of applications", 32)
	if err != nil {
		return secrets{}, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return secrets{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return secrets{aead}, err
}

// set checks and encrypts a secret; nil keeps the present one, an empty text removes it.
func (s secrets) set(row *store.Application, secret *string) error {
	if secret == nil {
		return nil
	}
	text := strings.TrimSpace(*secret)
	n := utf8.RuneCountInString(text)
	switch {
	case text == "":
		row.Secret = nil
		return nil
	case n < minSecret || len(text) > maxSecret || strings.ContainsFunc(text, unicode.IsControl):
		return refusal.Invalid("hook_secret", fmt.Sprintf("A secret has %d to %d characters, none of them a control character.", minSecret, maxSecret))
	case config.Weakness(text) != "":
		return refusal.Invalid("hook_secret", "Others would guess this secret: it "+config.Weakness(text)+".")
	case s.aead == nil:
		return refusal.Invalid("hook_secret", "Secrets are stored encrypted, and this relay has no key: an administrator must set matrix.pickle_key first.")
	}
	row.Secret = s.aead.Seal(nil, nil, []byte(text), nil)
	return nil
}

// Secret returns the secret that verifies the signatures of an application's webhooks, nil if it has none.
func (s *Accounts) Secret(a *App) ([]byte, error) {
	sealed := a.Secret
	if len(sealed) == 0 {
		return nil, nil
	}
	err := errNoSecretKey
	if s.secrets.aead != nil {
		var secret []byte
		if secret, err = s.secrets.aead.Open(nil, nil, sealed, nil); err == nil {
			return secret, nil
		}
	}
	return nil, &refusal.Error{
		Kind: refusal.KindUnavailable, RetryAfter: refusal.RetryAfter, Err: err,
		Message: "The application's secret cannot be read: it was stored with another matrix.pickle_key. Put that key back, or set the secret again.",
	}
}

var errNoSecretKey = errors.New("matrix.pickle_key is not set")
