package account

import (
	"context"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// Options are what [Accounts] are made of.
type Options struct {
	Store *store.Store
	Log   *zap.Logger
	Rooms Rooms
	Admin Admin
	// CheckToken as security.checktoken: when false, white space around a token is forgiven and a regenerated
	// token's predecessor stays valid for a day even without a grace period. The check itself is never skipped.
	CheckToken bool
}

// Admin is the administrator from the configuration. It is created or brought up to date at each start.
type Admin struct {
	Name, Password, MatrixID string
}

// Rooms makes rooms.
type Rooms interface {
	// Make makes or looks up a room if the homeserver answers soon; else that is done later.
	Make(ctx context.Context, room int64)
	// Membership tells how a user stands in a room, named by id or alias: join, invite, leave, ban, knock, or "". It
	// asks the homeserver; what it refuses, it refuses with a [*refusal.Error].
	Membership(ctx context.Context, address, user string) (roomID, membership string, err error)
}

// Accounts are the users and applications. Its methods may be called by any number of goroutines; what they refuse,
// they refuse with a [*refusal.Error].
type Accounts struct {
	o         Options
	log       *zap.Logger
	store     *store.Store
	cache     *cache
	passwords *passwords
	edit      sync.Mutex    // held while users and applications are changed
	deleted   chan struct{} // an application was deleted

	sharedRooms sharedRooms
}

// New reads the accounts and brings the administrator up to date.
func New(ctx context.Context, o Options) (*Accounts, error) {
	s := &Accounts{o: o, log: o.Log, store: o.Store, cache: newCache(), passwords: newPasswords(), deleted: make(chan struct{}, 1)}
	if o.Store.Shared() {
		s.passwords.shared = o.Store
	}
	if err := s.Reload(ctx); err != nil {
		return nil, err
	}
	if err := s.ensureAdminTogether(ctx); err != nil {
		return nil, fmt.Errorf("set up the administrator: %w", err)
	}
	return s, nil
}

// Deleted receives when an application was deleted, so that its messages can be removed.
func (s *Accounts) Deleted() <-chan struct{} { return s.deleted }
