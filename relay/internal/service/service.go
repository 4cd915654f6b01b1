// Package service combines accounts, intake, readers and delivery into one service over one store, and decides which of several relays on a
// database delivers. It depends on neither HTTP nor a Matrix SDK.
//
// A message enters through [Intake.Accept], which answers only after it is committed to the outbox. [delivery.Delivery]
// reads the outbox and sends it through the Sender in [Options]. ARCHITECTURE.md names the file of each step.
package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/lease"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// Options configure a [Service].
type Options struct {
	Store     *store.Store        // closed by the service
	Accounts  account.Options     // without Store, Log, Rooms and Metrics
	Delivery  delivery.Options    // without Store, Log, Metrics and Valid
	Events    <-chan matrix.Event // what the homeserver tells; Run reads it. nil means never anything
	Bot       Bot                 // nil where nothing is heard of the homeserver
	Log       *zap.Logger
	Metrics   *Metrics
	Limits    Limits
	Retention time.Duration // how long final messages are kept; 0 means forever
	// MaxUpload returns the size of the largest file that the homeserver takes, in bytes; 0 if that is unknown. nil is always 0.
	MaxUpload func() int64
}

// Bot keeps the bot's session.
type Bot interface {
	// Run follows the homeserver until ctx is done. It is called while this relay delivers.
	Run(ctx context.Context)
	// Follow keeps the session for questions until ctx is done. It is called while another relay delivers.
	Follow(ctx context.Context)
	// Reactions returns the reactions of others to an event.
	Reactions(ctx context.Context, roomID, eventID string) ([]matrix.Reaction, error)
}

// deliverer looks up and makes rooms, in this relay or in another.
type deliverer interface {
	LookUpRoom(ctx context.Context, address string) (matrix.RoomInfo, error)
	Make(ctx context.Context, room int64)
}

// Metrics are the Prometheus metrics of a [Service].
type Metrics struct {
	account  *account.Metrics
	intake   *intakeMetrics
	delivery *delivery.Metrics
}

// NewMetrics registers the relay's metrics at reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{account: account.NewMetrics(reg), intake: newIntakeMetrics(reg), delivery: delivery.NewMetrics(reg)}
}

// Service is the relay. It is safe for concurrent use. Errors that a client may read are [*refusal.Error]. What senders,
// readers and accounts need is in the embedded parts.
type Service struct {
	*account.Accounts
	*Intake
	*Inbox

	o        Options
	log      *zap.Logger
	store    *store.Store
	delivery atomic.Pointer[delivery.Delivery] // nil while another relay delivers
	follower *delivery.Follower
	lease    *lease.Lease // nil where no other relay uses the database
	stopping chan struct{}
	online   chan struct{} // the homeserver answers for the first time or again, or the rights in a room changed
}

// cleanKey is the setting that is "1" after a clean shutdown and "0" while a relay delivers.
const cleanKey = "outbox.clean"

// New updates the administrator and loads the in-memory state. It takes ownership of o.Store and closes it on failure.
// Nothing is delivered before Run.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{o: o, log: o.Log, store: o.Store, stopping: make(chan struct{}), online: make(chan struct{}, 1)}
	if err := s.assemble(ctx); err != nil {
		_ = s.store.Close()
		return nil, err
	}
	return s, nil
}

func (s *Service) assemble(ctx context.Context) error {
	o := s.o
	if m := s.store.Migrated; m.From != m.To {
		s.log.Info("database schema migrated", zap.Int("from", m.From), zap.Int("to", m.To))
	}
	var err error
	if s.store.Shared() {
		s.lease = lease.NewLease(s.store.Member, s.log)
		s.follower = &delivery.Follower{Store: s.store, Rooms: o.Delivery.Rooms, Paused: s.Paused}
		s.lease.Look(ctx)
	} else {
		err = s.begin(ctx, nil)
	}
	if err != nil {
		return err
	}
	o.Accounts.Store, o.Accounts.Log, o.Accounts.Rooms, o.Accounts.Metrics = s.store, s.log, rooms{s}, o.Metrics.account
	s.Accounts, err = account.New(ctx, o.Accounts)
	if err != nil {
		return err
	}
	if o.MaxUpload == nil {
		o.MaxUpload = func() int64 { return 0 }
	}
	s.Intake = &Intake{store: s.store, accounts: s.Accounts, metrics: o.Metrics.intake, paused: s.Paused, maxUpload: o.MaxUpload, stopping: s.stopping}
	s.SetLimits(o.Limits)
	s.Inbox = newInbox(s.store, s.Accounts)
	return nil
}

// begin creates the delivery and recovers the outbox after an unclean shutdown.
func (s *Service) begin(ctx context.Context, valid func() bool) error {
	clean, err := s.store.Setting(ctx, cleanKey)
	if err != nil {
		return err
	}
	o := s.o.Delivery
	o.Store, o.Log, o.Metrics, o.Valid = s.store, s.log, s.o.Metrics.delivery, valid
	d, err := delivery.New(ctx, o)
	if err != nil {
		return err
	}
	if clean != "1" {
		if err := d.Recover(ctx); err != nil {
			return fmt.Errorf("recover the outbox: %w", err)
		}
	}
	if err := s.store.SetSetting(ctx, cleanKey, "0"); err != nil {
		return err
	}
	s.delivery.Store(d)
	return nil
}

// deliverer returns the local delivery or, while another relay delivers, the follower.
func (s *Service) deliverer() deliverer {
	if d := s.delivery.Load(); d != nil {
		return d
	}
	return s.follower
}

// rooms makes the rooms of applications.
type rooms struct{ s *Service }

// Make implements [account.Rooms].
func (r rooms) Make(ctx context.Context, room int64) { r.s.deliverer().Make(ctx, room) }

// Standing implements [account.Rooms].
func (r rooms) Standing(ctx context.Context, address, user string) (account.Standing, error) {
	s, err := delivery.StandingOf(ctx, r.s.o.Delivery.Rooms, address, user)
	return account.Standing{RoomID: s.RoomID, Joined: s.Joined, Write: s.Write, Notify: s.Notify}, err
}

// Run delivers until ctx is done, then finishes what is in flight (at most ten seconds) and returns. The
// homeserver need not be there. Of several relays on one database one delivers.
func (s *Service) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() {
		<-ctx.Done()
		close(s.stopping)
	})
	beside.Go(func() { s.Follow(ctx, s.log) })
	if s.lease == nil {
		s.deliver(ctx, s.delivery.Load())
	} else {
		s.lease.Campaign(ctx, s.follow, s.term)
	}
	beside.Wait()
	return nil
}

// deliver does the work of the delivering relay until ctx is done.
func (s *Service) deliver(ctx context.Context, d *delivery.Delivery) {
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	var follow, beside sync.WaitGroup
	if s.o.Bot != nil {
		follow.Go(func() { s.o.Bot.Run(following) })
	}
	beside.Go(func() { s.maintain(ctx, d) })
	beside.Go(func() { s.listen(ctx, d) })
	beside.Go(func() { s.remind(ctx) })
	beside.Go(func() { s.checkOwners(ctx) })
	beside.Go(func() { s.watch(ctx) })
	d.Run(ctx)
	beside.Wait()
	stopFollowing()
	follow.Wait()
}

// Close commits what is pending and closes the database. Call it after Run has returned and intake has stopped.
func (s *Service) Close() error {
	if s.lease != nil { // given back, with its term
		return s.store.Close()
	}
	ctx := context.Background()
	err := s.store.Settle(ctx) // what was sent and cannot be stored is in doubt at the next start
	if err == nil {
		err = s.store.SetSetting(ctx, cleanKey, "1")
	}
	if err != nil {
		s.log.Error("cannot store that the relay was stopped cleanly", zap.Error(err))
	}
	return s.store.Close()
}

// Status returns the relay's current status.
func (s *Service) Status(ctx context.Context) delivery.Status {
	st := delivery.StatusOf(ctx, s.store)
	st.Condition = s.condition()
	if s.lease != nil {
		showDeliverer(s.lease, &st)
	}
	return st
}

// Paused returns why nothing is sent at all, "" if nothing is wrong.
func (s *Service) Paused() string { return s.condition().Paused }

// condition returns the condition of the local delivery, or the one that the delivering relay has published.
func (s *Service) condition() delivery.Condition {
	if d := s.delivery.Load(); d != nil {
		return d.Condition()
	}
	return publishedCondition(s.lease)
}

// Delivered reports whether a relay has delivered from this database before.
func (s *Service) Delivered(ctx context.Context) (bool, error) {
	return delivery.Delivered(ctx, s.store)
}

// CheckDatabase makes sure that the database can be written to, for health checks and the doctor.
func (s *Service) CheckDatabase(ctx context.Context) error { return s.store.Check(ctx) }

// Database returns the settings of the database's server; ok is false without a server.
func (s *Service) Database(ctx context.Context) (db store.Server, ok bool, err error) {
	if s.lease == nil {
		return db, false, nil
	}
	db, err = s.store.Server(ctx)
	return db, true, err
}

// JoinedRooms lists the rooms that the bot is in, for choosing one. It asks the homeserver.
func (s *Service) JoinedRooms(ctx context.Context) ([]matrix.RoomInfo, error) {
	return delivery.JoinedRooms(ctx, s.o.Delivery.Rooms)
}

// CheckRoom asks the homeserver for the bot's standing in a room, named by ID or alias.
func (s *Service) CheckRoom(ctx context.Context, address string) (matrix.RoomInfo, error) {
	if err := account.CheckAddress(address); err != nil {
		return matrix.RoomInfo{}, err
	}
	return s.deliverer().LookUpRoom(ctx, address)
}

// Delivery returns the delivery; nil while another relay delivers.
func (s *Service) Delivery() *delivery.Delivery { return s.delivery.Load() }
