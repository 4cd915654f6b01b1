// Package account manages users, applications, tokens, passwords and sessions, and the rights of each. It knows nothing
// of delivery.
package account

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// Options configure [Accounts].
type Options struct {
	Store *store.Store
	Log   *zap.Logger
	Rooms Rooms
	Admin Admin
	// Metrics is required.
	Metrics *Metrics
	// MaxApplications bounds the applications of a user other than an administrator; 0 means no limit.
	MaxApplications int
	// CheckToken is security.checktoken. If it is false, white space around a token is ignored and the previous token
	// stays valid for a day by default. Tokens are checked in any case.
	CheckToken bool
	// SecretKey encrypts the applications' secrets in the database. Without it applications cannot have secrets.
	SecretKey []byte
	// PasswordMemory is what the hash of a password takes, in KiB; 0 means the usual 19 MiB. Tests take less.
	PasswordMemory int
}

// Admin is the administrator of the configuration, created or updated at each start and reload.
type Admin struct {
	Name, Password, MatrixID string
}

// Rooms is the part of the delivery that manages rooms.
type Rooms interface {
	// Make creates or resolves a room. If the homeserver doesn't answer soon, that happens later.
	Make(ctx context.Context, room int64)
	// Standing asks the homeserver how a user stands in a room, named by id or alias. Its errors are *refusal.Error.
	Standing(ctx context.Context, address, user string) (Standing, error)
}

// Accounts manages users and applications. It is safe for concurrent use. Errors that a client may read are
// [*refusal.Error].
type Accounts struct {
	o Options
	// maxApplications is Options.MaxApplications, or a later one.
	maxApplications atomic.Int64
	log             *zap.Logger
	store           *store.Store
	known           known
	passwords       *hasher
	failures        *failures
	nobody          string // verified against for unknown names, which then take the same time
	secrets         secrets
	deleted         chan struct{} // an application was deleted
}

// New updates the administrator.
func New(ctx context.Context, o Options) (*Accounts, error) {
	s := &Accounts{o: o, log: o.Log, store: o.Store, passwords: newHasher(o.PasswordMemory), deleted: make(chan struct{}, 1)}
	s.known.tokens, s.known.traffic = map[[sha256.Size]byte]*App{}, map[int64]*traffic{}
	s.nobody = s.passwords.Unusable()
	s.SetMaxApplications(o.MaxApplications)
	var err error
	if s.secrets, err = newSecrets(o.SecretKey); err != nil {
		return nil, err
	}
	s.failures = newFailures()
	if err := s.SetAdmin(ctx, o.Admin); err != nil {
		return nil, fmt.Errorf("set up the administrator: %w", err)
	}
	return s, nil
}

// SetMaxApplications replaces Options.MaxApplications.
func (s *Accounts) SetMaxApplications(n int) { s.maxApplications.Store(int64(n)) }

// Deleted returns a channel that receives after an application was deleted, so that its messages can be removed.
func (s *Accounts) Deleted() <-chan struct{} { return s.deleted }

// Metrics counts logins that failed.
type Metrics struct {
	wrong, limited prometheus.Counter
}

// NewMetrics registers the metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relay_failed_logins_total", Help: "Logins with a name and a password that failed: wrong, or limited after too many of them.",
	}, []string{"reason"})
	reg.MustRegister(failed)
	return &Metrics{wrong: failed.WithLabelValues("wrong"), limited: failed.WithLabelValues("limited")}
}
