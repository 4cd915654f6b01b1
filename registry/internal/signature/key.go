package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.SHA256
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Key is a public key of cosign: ECDSA, Ed25519 or RSA.
type Key struct{ public crypto.PublicKey }

// LoadKey reads a PEM file with one public key, such as cosign.pub.
func LoadKey(path string) (Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Key{}, err
	}
	k, err := ParseKey(content)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// ParseKey reads one public key in PEM.
func ParseKey(content []byte) (Key, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, errors.New("is no public key in PEM, which begins with BEGIN PUBLIC KEY")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("is no public key: %w", err)
	}
	switch public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey, *rsa.PublicKey:
		return Key{public}, nil
	}
	return Key{}, errors.New("is a key of a kind other than ECDSA, Ed25519 and RSA")
}

// hashes are those that cosign signs with. Old releases use SHA-256 with every key, new ones the hash that suits the curve.
var hashes = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}

// verifies reports whether the signature is the key's over the content.
func (k Key) verifies(content, signature []byte) bool {
	if public, ok := k.public.(ed25519.PublicKey); ok {
		digest := sha512.Sum512(content) // of Ed25519ph, which cosign uses where it hashes first
		return ed25519.Verify(public, content, signature) ||
			ed25519.VerifyWithOptions(public, digest[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	for _, h := range hashes {
		w := h.New()
		w.Write(content)
		digest := w.Sum(nil)
		switch public := k.public.(type) {
		case *ecdsa.PublicKey:
			if ecdsa.VerifyASN1(public, digest, signature) {
				return true
			}
		case *rsa.PublicKey:
			if rsa.VerifyPKCS1v15(public, h, digest, signature) == nil {
				return true
			}
		}
	}
	return false
}
