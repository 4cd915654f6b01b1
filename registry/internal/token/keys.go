package token

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Keys are the keys that are trusted to sign. They never change.
type Keys struct {
	roots *x509.CertPool // nil = no certificate chain is trusted
	byID  map[string]jose.JSONWebKey
}

// ParseKeys reads a PEM bundle of certificates and a JWK set; either may be nil.
// A certificate counts as an authority for chains in x5c, and its own key is known
// by both ids that token servers give it: libtrust's fingerprint and the thumbprint
// of RFC 7638.
func ParseKeys(bundle, set []byte) (*Keys, error) {
	k := &Keys{byID: map[string]jose.JSONWebKey{}}
	if err := k.addBundle(bundle); err != nil {
		return nil, err
	}
	if set != nil {
		if err := k.addSet(set); err != nil {
			return nil, err
		}
	}
	if len(k.byID) == 0 {
		return nil, errors.New("there is no key to verify tokens with")
	}
	return k, nil
}

func (k *Keys) addBundle(bundle []byte) error {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("a certificate cannot be read: %w", err)
		}
		if k.roots == nil {
			k.roots = x509.NewCertPool()
		}
		k.roots.AddCert(cert)
		key := jose.JSONWebKey{Key: cert.PublicKey}
		thumbprint, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			return fmt.Errorf("the key of certificate %q cannot sign tokens: %w", cert.Subject, err)
		}
		k.byID[base64.RawURLEncoding.EncodeToString(thumbprint)] = key
		k.byID[fingerprint(cert.RawSubjectPublicKeyInfo)] = key
	}
	if len(bundle) > 0 && k.roots == nil {
		return errors.New("the bundle holds no certificate")
	}
	return nil
}

// fingerprint is libtrust's id of a key: base32 in groups of four.
func fingerprint(publicKeyInfo []byte) string {
	sum := sha256.Sum256(publicKeyInfo)
	text := base32.StdEncoding.EncodeToString(sum[:30])
	var groups []string
	for ; text != ""; text = text[4:] {
		groups = append(groups, text[:4])
	}
	return strings.Join(groups, ":")
}

func (k *Keys) addSet(set []byte) error {
	var parsed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(set, &parsed); err != nil {
		return fmt.Errorf("the JWK set is no JSON of the right form: %w", err)
	}
	for i, raw := range parsed.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("key %d of the JWK set cannot be read: %w", i, err)
		}
		if key.Use == "enc" || key.KeyID == "" {
			continue // cannot be named by a token
		}
		if !key.IsPublic() {
			if public := key.Public(); public.Valid() {
				key = public
			}
		}
		k.byID[key.KeyID] = key
	}
	return nil
}
