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
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Keys are the keys that are trusted to sign. They never change.
type Keys struct {
	roots *x509.CertPool // nil = no certificate chain is trusted
	byID  map[string]key
}

// key is a trusted key.
type key struct {
	jose.JSONWebKey
	cert *x509.Certificate // that it came with and is valid as long as; nil = forever
}

// checkTime fails where the key's certificate isn't valid.
func (k *key) checkTime(now time.Time) error {
	switch {
	case k.cert != nil && now.After(k.cert.NotAfter):
		return fmt.Errorf("the certificate %q of the key expired at %s", k.cert.Subject, k.cert.NotAfter.UTC().Format(time.RFC3339))
	case k.cert != nil && now.Before(k.cert.NotBefore):
		return fmt.Errorf("the certificate %q of the key is valid from %s", k.cert.Subject, k.cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// ParseKeys reads a PEM bundle of certificates and a JWK set; either may be nil.
// A certificate counts as an authority for chains in x5c, and its own key is known
// by both ids that token servers give it: libtrust's fingerprint and the thumbprint
// of RFC 7638.
func ParseKeys(bundle, set []byte) (*Keys, error) {
	k := &Keys{byID: map[string]key{}}
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
		public := jose.JSONWebKey{Key: cert.PublicKey}
		thumbprint, err := public.Thumbprint(crypto.SHA256)
		if err != nil {
			return fmt.Errorf("the key of certificate %q cannot sign tokens: %w", cert.Subject, err)
		}
		for _, id := range []string{base64.RawURLEncoding.EncodeToString(thumbprint), fingerprint(cert.RawSubjectPublicKeyInfo)} {
			if old, ok := k.byID[id]; !ok || old.cert.NotAfter.Before(cert.NotAfter) { // of a renewed one the later counts
				k.byID[id] = key{public, cert}
			}
		}
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
		var parsed jose.JSONWebKey
		if err := parsed.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("key %d of the JWK set cannot be read: %w", i, err)
		}
		if parsed.Use == "enc" || parsed.KeyID == "" {
			continue // cannot be named by a token
		}
		if !parsed.IsPublic() {
			if public := parsed.Public(); public.Valid() {
				parsed = public
			}
		}
		k.byID[parsed.KeyID] = key{JSONWebKey: parsed}
	}
	return nil
}
