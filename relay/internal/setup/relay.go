package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relay"
)

// Relay is what setup asks of the relay, as its administrator: of one that runs, or of one that was opened for it
// and delivers nothing.
type Relay interface {
	// Applications lists all applications.
	Applications(ctx context.Context) ([]Application, error)
	// Create makes an application of the administrator's. The answer has its token.
	Create(ctx context.Context, name string) (Application, error)
	// NewToken makes a new token; the one before stays valid for grace. The answer has the token.
	NewToken(ctx context.Context, id int64, grace time.Duration) (Application, error)
	// Rename gives an application another name.
	Rename(ctx context.Context, id int64, name string) error
	// TakesToken reports whether a token is valid.
	TakesToken(ctx context.Context, token string) (bool, error)
	// EnsureRoom makes the application's room if it is not there and returns its id. ErrRoomNotYet says that a
	// later attempt may succeed.
	EnsureRoom(ctx context.Context, id int64) (roomID string, err error)
}

// Application is what setup knows of one.
type Application struct {
	ID    int64
	Name  string
	Owner string // name of the user
	Token string // only just after it was made
}

// ErrRoomNotYet is returned, wrapped, while a room cannot be made.
var ErrRoomNotYet = errors.New("the room is not there yet")

// Opened is a relay that was opened for setup. Nothing is delivered, because it does not run.
type Opened struct {
	Service *relay.Service
	Admin   account.Principal
}

// Applications implements [Relay].
func (o Opened) Applications(ctx context.Context) ([]Application, error) {
	apps, err := o.Service.Applications(ctx, o.Admin)
	list := make([]Application, 0, len(apps))
	for _, app := range apps {
		list = append(list, Application{ID: app.ID, Name: app.Name, Owner: app.OwnerName})
	}
	return list, err
}

// Create implements [Relay].
func (o Opened) Create(ctx context.Context, name string) (Application, error) {
	return issued(o.Service.CreateApplication(ctx, o.Admin, account.ApplicationInput{Name: &name}))
}

// NewToken implements [Relay].
func (o Opened) NewToken(ctx context.Context, id int64, grace time.Duration) (Application, error) {
	return issued(o.Service.RegenerateToken(ctx, o.Admin, id, grace))
}

func issued(in account.IssuedToken, err error) (Application, error) {
	app := in.Application
	return Application{ID: app.ID, Name: app.Name, Owner: app.OwnerName, Token: in.Token}, err
}

// Rename implements [Relay].
func (o Opened) Rename(ctx context.Context, id int64, name string) error {
	_, err := o.Service.UpdateApplication(ctx, o.Admin, id, account.ApplicationInput{Name: &name})
	return err
}

// TakesToken implements [Relay].
func (o Opened) TakesToken(ctx context.Context, token string) (bool, error) {
	_, err := o.Service.TokenViewer(ctx, token)
	if refusal.KindOf(err) == refusal.KindUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// EnsureRoom implements [Relay].
func (o Opened) EnsureRoom(ctx context.Context, id int64) (string, error) {
	app, err := o.Service.EnsureRoom(ctx, o.Admin, id)
	if refusal.KindOf(err) == refusal.KindUnavailable {
		return "", fmt.Errorf("%w: %w", ErrRoomNotYet, err)
	}
	return app.RoomID, err
}
