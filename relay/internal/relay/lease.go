package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/store"
)

// How soon another relay delivers when one is gone: its lease has to expire, and somebody has to look. What the database or a busy
// machine needs comes on top, up to the 15 seconds that are promised.
const (
	leaseFor   = 8 * time.Second
	leaseSpare = 2 * time.Second // so much earlier its holder stops sending: clocks do not run alike
	renewEvery = 2 * time.Second
	renewAgain = 500 * time.Millisecond // after a failure
	lookEvery  = time.Second            // whether the lease is free
	beginAgain = 2 * time.Second        // after a beginning that failed
)

// lease is the right to deliver, as this relay knows it.
type lease struct {
	store *store.Store
	log   *zap.Logger
	until atomic.Pointer[time.Time] // this relay may send; nil if it may not
	seen  atomic.Pointer[seenLease]
	away  atomic.Bool // the database was, the last time
}

// seenLease is the lease as it was read last.
type seenLease struct {
	store.Lease
	mine bool
}

func newLease(s *store.Store, log *zap.Logger) *lease {
	l := &lease{store: s, log: log}
	l.seen.Store(&seenLease{})
	return l
}

// valid reports whether this relay may send now. Both clocks of the machine are asked: one does not run while it sleeps, the other
// may be set.
func (l *lease) valid() bool {
	until := l.until.Load()
	now := time.Now()
	return until != nil && now.Before(*until) && now.Round(0).Before(until.Round(0))
}

// hold notes that the lease was taken or renewed by a question that was asked at a time.
func (l *lease) hold(asked time.Time) {
	until := asked.Add(leaseFor - leaseSpare)
	l.until.Store(&until)
}

// take takes the lease if it is free, and else notes who has it.
func (l *lease) take(ctx context.Context) bool {
	asked := time.Now()
	taken, err := l.store.Acquire(ctx, leaseFor)
	if err == nil && taken {
		l.hold(asked)
	}
	switch away := err != nil; {
	case l.away.Swap(away) == away || ctx.Err() != nil:
	case away:
		l.log.Warn("the database does not answer", zap.Error(err))
	default:
		l.log.Info("the database answers again")
	}
	l.look(ctx)
	return err == nil && taken
}

// look notes who has the lease.
func (l *lease) look(ctx context.Context) {
	seen := &seenLease{}
	if read, err := l.store.ReadLease(ctx); err == nil {
		seen.Lease, seen.mine = read, l.store.Holds(read.Epoch)
	}
	l.seen.Store(seen)
}

// keep renews the lease until ctx is done. It returns when the lease is lost or may be.
func (l *lease) keep(ctx context.Context, condition func() delivery.Condition) {
	defer l.until.Store(nil)
	wait := renewEvery
	for l.valid() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		text, err := json.Marshal(condition())
		if err != nil {
			text = nil
		}
		asked := time.Now()
		held, err := l.renew(ctx, string(text))
		switch {
		case err == nil && !held:
			return
		case err != nil:
			wait = renewAgain
		default:
			wait = renewEvery
			l.hold(asked)
			l.look(ctx)
		}
	}
}

// renew renews the lease, unless it expires before there is an answer: what is under way shall end then.
func (l *lease) renew(ctx context.Context, status string) (held bool, err error) {
	until := l.until.Load()
	if until == nil {
		return false, nil
	}
	ctx, cancel := context.WithDeadline(ctx, *until)
	defer cancel()
	return l.store.Renew(ctx, leaseFor, status)
}

// deliverer is the lease of the relay that delivers, by what this one knows; nil if none does. This relay's own, once it has
// expired here, is nobody's.
func (l *lease) deliverer() *seenLease {
	if seen := l.seen.Load(); seen.Held && (!seen.mine || l.valid()) {
		return seen
	}
	return nil
}

// condition is what the relay that delivers has published.
func (l *lease) condition() (c delivery.Condition) {
	seen := l.deliverer()
	if seen == nil {
		return delivery.Condition{Paused: "No relay delivers at this moment; another one takes over within seconds."}
	}
	if json.Unmarshal([]byte(seen.Status), &c) != nil { // it has said nothing yet
		return delivery.Condition{}
	}
	return c
}

// show adds who delivers.
func (l *lease) show(st *delivery.Status) {
	if seen := l.deliverer(); seen != nil {
		st.Deliverer, st.Since, st.Elsewhere = seen.Holder, seen.Since, !seen.mine
	}
}

// campaign delivers whenever this relay has the lease, until ctx is done.
func (s *Service) campaign(ctx context.Context) {
	for ctx.Err() == nil {
		if s.follow(ctx) {
			s.term(ctx)
		}
	}
}

// follow waits until this relay has the lease. It answers false when ctx is done.
func (s *Service) follow(ctx context.Context) bool {
	if s.lease.valid() || s.lease.take(ctx) {
		return true
	}
	following, stop := context.WithCancel(ctx)
	var bot sync.WaitGroup
	defer bot.Wait()
	defer stop()
	if s.o.Bot != nil {
		bot.Go(func() { s.o.Bot.Follow(following) })
	}
	s.log.Info("another relay delivers", zap.String("relay", s.lease.seen.Load().Holder))
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.store.LeaseFree():
		case <-time.After(lookEvery):
		}
		if s.lease.take(ctx) {
			return true
		}
	}
}

// term delivers until ctx is done or the lease is lost.
func (s *Service) term(ctx context.Context) {
	term, end := context.WithCancel(ctx)
	defer end()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keep sync.WaitGroup
	keep.Go(func() { // from the start: to read a large outbox may take longer than the lease lasts
		s.lease.keep(keeping, s.condition)
		if keeping.Err() == nil {
			s.log.Warn("lost the lease: this relay has stopped delivering")
			s.delivery.Store(nil)
			end()
		}
	})
	var err error
	if s.delivery.Load() == nil {
		err = s.begin(term, s.lease.valid)
	}
	d := s.delivery.Load()
	if err == nil && d != nil {
		s.log.Info("this relay delivers", zap.Int64("epoch", s.lease.seen.Load().Epoch))
		s.deliver(term, d)
	}
	held := s.lease.valid()
	stop()
	keep.Wait() // from here on the lease is not valid here
	s.delivery.Store(nil)
	if held {
		s.giveBack(d)
	}
	s.store.Forget()
	if err != nil && term.Err() == nil {
		s.log.Error("cannot start to deliver", zap.Error(err))
		select { // let another relay try
		case <-ctx.Done():
		case <-time.After(beginAgain):
		}
	}
}

// condition is that of the delivery here, once it has begun.
func (s *Service) condition() delivery.Condition {
	if d := s.delivery.Load(); d != nil {
		return d.Condition()
	}
	return delivery.Condition{}
}

// giveBack gives the lease back, after an orderly end if d is not nil: then nothing is in doubt.
func (s *Service) giveBack(d *delivery.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseFor)
	defer cancel()
	err := s.store.Settle(ctx)
	if err == nil {
		err = s.store.Release(ctx, func(tx *store.Tx) error {
			if d == nil {
				return nil
			}
			return tx.SetSetting(cleanKey, "1")
		})
	}
	if err != nil {
		s.log.Warn("cannot release the lease; it expires by itself", zap.Error(err))
	}
}

// Hold lets a program that does not run the service do what only the relay that delivers may, such as making rooms, if no other one
// delivers. Close ends it.
func (s *Service) Hold(ctx context.Context) error {
	if s.lease == nil || !s.lease.take(ctx) {
		return nil
	}
	if err := s.begin(ctx, s.lease.valid); err != nil {
		return fmt.Errorf("take the lease: %w", err)
	}
	d := s.delivery.Load()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.lease.keep(keeping, s.condition)
	}()
	s.holding = func() {
		stop()
		<-done
		s.giveBack(d)
	}
	return nil
}

// letGo ends what Hold began.
func (s *Service) letGo() {
	if s.holding != nil {
		s.holding()
		s.holding = nil
	}
}

// refresh reads users and applications again when another relay has changed them, until ctx is done.
func (s *Service) refresh(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.store.AccountsChanged():
		case <-time.After(lookEvery):
		}
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("cannot read users and applications", zap.Error(err))
		}
	}
}
