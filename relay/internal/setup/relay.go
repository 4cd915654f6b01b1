package setup

import (
	"context"
	"errors"
	"time"
)

// Relay is the relay that is set up, used as its administrator.
type Relay interface {
	// Applications returns all applications.
	Applications(ctx context.Context) ([]Application, error)
	// Create creates an application of the administrator. The result has its token.
	Create(ctx context.Context, name string) (Application, error)
	// NewToken replaces the token; the old one stays valid for grace. The result has the new one.
	NewToken(ctx context.Context, id int64, grace time.Duration) (Application, error)
	// Rename renames an application.
	Rename(ctx context.Context, id int64, name string) error
	// TakesToken reports whether a token is valid.
	TakesToken(ctx context.Context, token string) (bool, error)
	// EnsureRoom creates the application's room if it doesn't exist and returns its id. After ErrRoomNotYet a later attempt may
	// succeed.
	EnsureRoom(ctx context.Context, id int64) (roomID string, err error)
}

// Application is an application of the relay.
type Application struct {
	ID    int64
	Name  string
	Owner string // name of the user
	Token string // only from Create and NewToken
}

// ErrRoomNotYet reports that a room cannot be created yet.
var ErrRoomNotYet = errors.New("the room is not there yet")
