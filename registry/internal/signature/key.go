package signature

import (
	"bytes"
	"crypto"
	"fmt"
	"slices"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigstore "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// Key is a public key of cosign: ECDSA, Ed25519 or RSA, with each hash that cosign signs with. Old releases use SHA-256 with every key, new
// ones the hash that suits the curve.
type Key []sigstore.Verifier

// ParseKey reads a PEM file with one public key, such as cosign.pub. The error continues a sentence that begins with its path.
func ParseKey(content []byte) (k Key, err error) {
	public, err := cryptoutils.UnmarshalPEMToPublicKey(content)
	if err != nil {
		return nil, fmt.Errorf("is no public key in PEM, which begins with BEGIN PUBLIC KEY: %w", err)
	}
	for _, o := range []sigstore.LoadOption{options.WithHash(crypto.SHA256), options.WithHash(crypto.SHA384), options.WithHash(crypto.SHA512), options.WithED25519ph()} {
		v, err := sigstore.LoadVerifierWithOpts(public, o)
		if err != nil {
			return nil, fmt.Errorf("is a key of a kind other than ECDSA, Ed25519 and RSA: %w", err)
		}
		k = append(k, v)
	}
	return k, nil
}

// verifies reports whether the signature is the key's over the content.
func (k Key) verifies(content, signature []byte) bool {
	return slices.ContainsFunc(k, func(v sigstore.Verifier) bool {
		return v.VerifySignature(bytes.NewReader(signature), bytes.NewReader(content)) == nil
	})
}
