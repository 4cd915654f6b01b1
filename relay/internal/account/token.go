package account

import (
	"context"
	"strings"
	"time"

	"slipway/relay/internal/refusal"
)

const (
	maxToken     = 256
	lenientGrace = 24 * time.Hour // of a token's predecessor with CheckToken off

	catchUpWithin = 5 * time.Second // how long a token that is unknown here waits for the database
)

// ByToken returns the application of a token, including one that another relay has just created.
func (s *Accounts) ByToken(ctx context.Context, token string, now time.Time) (*App, error) {
	if !s.o.CheckToken {
		token = strings.TrimSpace(token)
	}
	if token == "" {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "A token is required."}
	}
	return lookUp(ctx, s, token, func() *App { return s.cache.byToken(token, now) })
}

var errToken = &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "No application or client has this token; was it replaced?"}

// lookUp finds the bearer of a token, also one that another relay has just created.
func lookUp[T any](ctx context.Context, s *Accounts, token string, find func() *T) (*T, error) {
	if len(token) > maxToken {
		return nil, errToken
	}
	found := find()
	if found == nil && s.store.Shared() {
		if err := s.catchUp(ctx); err != nil {
			return nil, &refusal.Error{
				Kind: refusal.KindUnavailable, Message: "The token cannot be checked: the database does not answer.", RetryAfter: refusal.RetryAfter, Err: err,
			}
		}
		found = find()
	}
	if found == nil {
		return nil, errToken
	}
	return found, nil
}

// catchUp reads the changes of other relays.
func (s *Accounts) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpWithin)
	defer cancel()
	now, err := s.store.Revision(ctx)
	if err != nil || now == s.store.Known() {
		return err
	}
	return s.Refresh(ctx)
}

// TokenViewer returns the principal of an application's token.
func (s *Accounts) TokenViewer(ctx context.Context, token string) (Principal, error) {
	app, err := s.ByToken(ctx, token, time.Now())
	if err != nil {
		return Principal{}, err
	}
	row := app.Row()
	return Principal{Name: row.Name, ApplicationID: row.ID}, nil
}
