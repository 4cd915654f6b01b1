package auth

import (
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/token"
)

// ServerTokens are the tokens of a token server.
type ServerTokens struct{ Verifier *token.Verifier }

// Authenticate implements Tokens. A token without a subject is that of an anonymous
// caller.
func (s ServerTokens) Authenticate(raw string) (access.Caller, *token.Claims, error) {
	claims, err := s.Verifier.Verify(raw, time.Now())
	if err != nil {
		return access.Caller{}, nil, &Refusal{Reason: BadToken, Cause: err}
	}
	if claims.Subject == "" {
		return access.Caller{}, claims, nil
	}
	return access.Caller{Kind: access.User, Name: claims.Subject}, claims, nil
}
