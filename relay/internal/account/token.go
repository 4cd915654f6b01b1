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
)

// ByToken returns the application that a token belongs to.
func (s *Accounts) ByToken(token string, now time.Time) (*App, error) {
	if !s.o.CheckToken {
		token = strings.TrimSpace(token)
	}
	if token == "" {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "A token is required."}
	}
	var app *App
	if len(token) <= maxToken {
		app = s.cache.byToken(token, now)
	}
	if app == nil {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "The token is not valid."}
	}
	return app, nil
}

// TokenViewer returns the principal that an application's token stands for.
func (s *Accounts) TokenViewer(_ context.Context, token string) (Principal, error) {
	app, err := s.ByToken(token, time.Now())
	if err != nil {
		return Principal{}, err
	}
	row := app.Row()
	return Principal{Name: row.Name, ApplicationID: row.ID}, nil
}
