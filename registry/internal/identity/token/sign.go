package token

import (
	"crypto/ed25519"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// NewKeys trusts Ed25519 keys by their ids, and nothing else.
func NewKeys(byID map[string]ed25519.PublicKey) *Keys {
	k := &Keys{byID: map[string]key{}}
	for id, public := range byID {
		k.byID[id] = key{JSONWebKey: jose.JSONWebKey{Key: public, KeyID: id, Algorithm: string(jose.EdDSA)}}
	}
	return k
}

// Sign makes a token of the claims.
func Sign(claims *Claims, id string, key ed25519.PrivateKey) (string, error) {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType("JWT"),
	)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
