// Package cloudfront signs URLs of an Amazon CloudFront distribution and tells Amazon's own
// addresses from others.
package cloudfront

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // what CloudFront verifies
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Signer signs URLs with a private key that the distribution trusts.
type Signer struct {
	base      *url.URL
	keyPairID string
	key       *rsa.PrivateKey
}

// NewSigner makes a Signer for the distribution at base. The key is RSA in PEM, as PKCS#1 or
// PKCS#8.
func NewSigner(base *url.URL, keyPairID string, privateKey []byte) (*Signer, error) {
	block, _ := pem.Decode(privateKey)
	if block == nil {
		return nil, errors.New("is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return &Signer{base, keyPairID, key}, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("is not a private key in PKCS#1 or PKCS#8: %w", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an RSA key")
	}
	return &Signer{base, keyPairID, key}, nil
}

// URL returns the signed URL of a path below the distribution's. Until it expires it works for
// every holder.
func (s *Signer) URL(path string, until time.Time) (string, error) {
	resource := s.base.JoinPath(path).String()
	expires := until.Unix()
	policy := fmt.Sprintf(`{"Statement":[{"Resource":"%s","Condition":{"DateLessThan":{"AWS:EpochTime":%d}}}]}`, resource, expires)
	sum := sha1.Sum([]byte(policy)) //nolint:gosec // as above
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA1, sum[:])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s?Expires=%d&Signature=%s&Key-Pair-Id=%s", resource, expires,
		inURL.Replace(base64.StdEncoding.EncodeToString(signature)), url.QueryEscape(s.keyPairID)), nil
}

// inURL maps base64 to CloudFront's alphabet.
var inURL = strings.NewReplacer("+", "-", "=", "_", "/", "~")
