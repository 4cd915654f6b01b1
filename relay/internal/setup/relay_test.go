package setup

import (
	"context"
	"fmt"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relay"
)

// direct is a relay without its API.
type direct struct {
	Service *relay.Service
	Admin   account.Principal
}

// Applications implements [Relay].
func (o direct) Applications(ctx context.Context) ([]Application, error) {
	apps, err := o.Service.Applications(ctx, o.Admin)
	list := make([]Application, 0, len(apps))
	for _, app := range apps {
		list = append(list, Application{ID: app.ID, Name: app.Name, Owner: app.OwnerName})
	}
	return list, err
}

// Create implements [Relay].
func (o direct) Create(ctx context.Context, name string) (Application, error) {
	return issued(o.Service.CreateApplication(ctx, o.Admin, account.ApplicationInput{Name: &name}))
}

// NewToken implements [Relay].
func (o direct) NewToken(ctx context.Context, id int64, grace time.Duration) (Application, error) {
	return issued(o.Service.RegenerateToken(ctx, o.Admin, id, grace))
}

func issued(in account.IssuedToken, err error) (Application, error) {
	app := in.Application
	return Application{ID: app.ID, Name: app.Name, Owner: app.OwnerName, Token: in.Token}, err
}

// Rename implements [Relay].
func (o direct) Rename(ctx context.Context, id int64, name string) error {
	_, err := o.Service.UpdateApplication(ctx, o.Admin, id, account.ApplicationInput{Name: &name})
	return err
}

// TakesToken implements [Relay].
func (o direct) TakesToken(ctx context.Context, token string) (bool, error) {
	_, err := o.Service.TokenViewer(ctx, token)
	if refusal.KindOf(err) == refusal.KindUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// EnsureRoom implements [Relay].
func (o direct) EnsureRoom(ctx context.Context, id int64) (string, error) {
	app, err := o.Service.EnsureRoom(ctx, o.Admin, id)
	if refusal.KindOf(err) == refusal.KindUnavailable {
		return "", fmt.Errorf("%w: %w", ErrRoomNotYet, err)
	}
	return app.RoomID, err
}
