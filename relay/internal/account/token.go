package account

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	maxToken     = 256
	lenientGrace = 24 * time.Hour // of a token's predecessor with CheckToken off

	tokenWithin = 5 * time.Second // how long a token waits for the database
)

// ByToken returns the application of a token. A token that another relay has revoked within the last second may still be good.
func (s *Accounts) ByToken(ctx context.Context, token string) (*App, error) {
	if !s.o.CheckToken {
		token = strings.TrimSpace(token)
	}
	if token == "" {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "A token is required."}
	}
	hash := sha256.Sum256([]byte(token))
	a := s.known.byToken(hash)
	if a == nil || !s.isCurrent(a) {
		var err error
		a, err = lookUp(ctx, token, func(ctx context.Context) (*App, error) {
			return s.readApp(func() (store.Application, error) { return s.store.ApplicationOf(ctx, hash[:]) })
		})
		if err != nil {
			return nil, err
		}
		s.known.remember(hash, a)
	}
	if !a.takes(hash[:]) {
		return nil, errToken
	}
	return a, nil
}

var errToken = &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "No application or client has this token; was it replaced?"}

// lookUp finds the bearer of a token in the database. It looks for the token's hash, so its time tells nothing about existing tokens.
func lookUp[T any](ctx context.Context, token string, find func(context.Context) (T, error)) (found T, err error) {
	if len(token) > maxToken {
		return found, errToken
	}
	ctx, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	switch found, err = find(ctx); {
	case store.IsMissing(err):
		err = errToken
	case err != nil:
		err = &refusal.Error{
			Kind: refusal.KindUnavailable, Message: "The token cannot be checked: the database does not answer.", RetryAfter: refusal.RetryAfter, Err: err,
		}
	}
	return found, err
}

// TokenViewer returns the principal of an application's token.
func (s *Accounts) TokenViewer(ctx context.Context, token string) (Principal, error) {
	app, err := s.ByToken(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	return Principal{Name: app.Name, ApplicationID: app.ID, OwnerID: app.OwnerID}, nil
}
