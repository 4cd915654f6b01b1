package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// Options are what a [Service] is made of.
type Options struct {
	Store     *store.Store // closed by the service
	Sender    Sender
	Rooms     Rooms
	Events    <-chan matrix.Event // what the homeserver tells; Run reads it. nil means never anything
	Format    format.Options
	Log       *zap.Logger
	Metrics   *Metrics
	Limits    Limits
	Delivery  Delivery
	Retention time.Duration // how long messages at rest are kept; 0 means for ever
	Admin     Admin
	// CheckToken as security.checktoken: when false, white space around a token is forgiven and a regenerated
	// token's predecessor stays valid for a day even without a grace period. The check itself is never skipped.
	CheckToken bool
}

// Limits bound what is taken in.
type Limits struct {
	MaxMessage    int   // bytes of a message's body; 0 means 1 MiB
	MaxTitle      int   // bytes; 0 means 1 KiB
	RatePerMinute int   // messages of one application; 0 means no limit
	Burst         int   // messages at once within that rate; 0 means RatePerMinute
	MaxWaiting    int64 // messages on their way; beyond that nothing is accepted. 0 means a million
}

// Delivery says how patient the worker is.
type Delivery struct {
	Parallel int           // rooms sent to at the same time; 0 means 64
	MaxAge   time.Duration // give up on a message after that; 0 means 72 h
}

// Service is the relay. Its methods may be called by any number of goroutines; what they refuse, they refuse with
// an [*Error].
type Service struct {
	*account.Accounts

	o     Options
	log   *zap.Logger
	store *store.Store
	d     *dispatcher
}

// New brings the administrator up to date and reads what is kept in memory. It takes over the store: if it fails, the
// store is closed. Nothing is delivered before Run.
func New(ctx context.Context, o Options) (*Service, error) {
	o.defaults()
	s := &Service{o: o, log: o.Log, store: o.Store, d: newDispatcher(o)}
	s.store.OnCommit(s.d.committed)
	o.Metrics.dispatcher.Store(s.d)
	if err := s.begin(ctx); err != nil {
		_ = s.store.Close()
		return nil, err
	}
	return s, nil
}

// begin reads what is kept in memory.
func (s *Service) begin(ctx context.Context) error {
	if m := s.store.Migrated; m.From != m.To {
		s.log.Info("the database's schema is up to date", zap.Int("from", m.From), zap.Int("to", m.To))
	}
	if clean, err := s.store.Setting(ctx, cleanKey); err != nil {
		return err
	} else if clean != "1" {
		if err := s.store.Recount(ctx, time.Now().Add(-hoursKept).Unix()/3600); err != nil {
			return fmt.Errorf("count the messages: %w", err)
		}
	}
	var err error
	s.Accounts, err = account.New(ctx, account.Options{Store: s.store, Log: s.log, Rooms: s.d, Admin: s.o.Admin, CheckToken: s.o.CheckToken})
	if err != nil {
		return err
	}
	s.d.accounts = s.Accounts
	if err := s.d.recover(ctx); err != nil {
		return fmt.Errorf("recover the outbox: %w", err)
	}
	return s.d.load(ctx)
}

// Run delivers until ctx is done, then finishes what is in flight (at most ten seconds) and returns. The
// homeserver need not be there.
func (s *Service) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { s.keepHouse(ctx) })
	beside.Go(func() { s.listen(ctx) })
	s.d.run(ctx)
	beside.Wait()
	return nil
}

// Close commits what is pending and closes the database. Call it after Run has returned and intake has stopped.
func (s *Service) Close() error {
	if err := s.store.SetSetting(context.Background(), cleanKey, "1"); err != nil {
		s.log.Error("cannot note the orderly end", zap.Error(err))
	}
	return s.store.Close()
}

func (o *Options) defaults() {
	set := func(v *int, standard int) {
		if *v <= 0 {
			*v = standard
		}
	}
	set(&o.Limits.MaxMessage, 1<<20)
	set(&o.Limits.MaxTitle, 1<<10)
	set(&o.Delivery.Parallel, 64)
	if o.Limits.MaxWaiting <= 0 {
		o.Limits.MaxWaiting = 1_000_000
	}
	if o.Delivery.MaxAge <= 0 {
		o.Delivery.MaxAge = 72 * time.Hour
	}
}
