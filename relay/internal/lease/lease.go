// Package lease lets several relays share a database: the holder of the lease delivers, and each relay announces to the others what it
// has changed.
package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Another relay takes over within 15 s: the lease expires, and a follower looks every second. The rest of the 15 s is for database and machine.
const (
	leaseFor   = 8 * time.Second
	leaseSpare = 2 * time.Second // how much earlier the holder stops sending: clocks differ
	renewEvery = 2 * time.Second
	renewAgain = 500 * time.Millisecond // after a failure
)

// Lease is the right to deliver, as this relay knows it. Its methods are safe for concurrent use.
type Lease struct {
	*Member
	log   *zap.Logger
	until atomic.Pointer[time.Time] // until when this relay may send; nil if it may not
	seen  atomic.Pointer[Seen]
	away  atomic.Bool // the database didn't answer the last time
}

// Seen is the lease as it was last read.
type Seen struct {
	Term
	Mine bool // this relay holds it
}

// NewLease returns the lease that a member competes for. No relay holds it before [Lease.Look].
func NewLease(m *Member, log *zap.Logger) *Lease {
	l := &Lease{Member: m, log: log}
	l.seen.Store(&Seen{})
	return l
}

// Valid reports whether this relay may send now. It compares both clocks of the machine: one stops while the machine sleeps, the
// other may be set.
func (l *Lease) Valid() bool {
	until := l.until.Load()
	now := time.Now()
	return until != nil && now.Before(*until) && now.Round(0).Before(until.Round(0))
}

// hold records that the lease was taken or renewed by a request sent at a time.
func (l *Lease) hold(asked time.Time) {
	until := asked.Add(leaseFor - leaseSpare)
	l.until.Store(&until)
}

// Take takes the lease if it is free and reports whether this relay holds it. Otherwise it records the holder.
func (l *Lease) Take(ctx context.Context) bool {
	asked := time.Now()
	taken, err := l.Acquire(ctx, leaseFor)
	if err == nil && taken {
		l.hold(asked)
	}
	l.heard(ctx, err)
	l.Look(ctx)
	return err == nil && taken
}

// heard logs when the database stops answering and when it answers again. err is that of the last request.
func (l *Lease) heard(ctx context.Context, err error) {
	switch away := err != nil; {
	case ctx.Err() != nil, l.away.Swap(away) == away:
	case away:
		l.log.Warn("the database does not answer", zap.Error(err))
	default:
		l.log.Info("the database answers again")
	}
}

// Look records the holder of the lease.
func (l *Lease) Look(ctx context.Context) {
	seen := &Seen{}
	if read, err := l.ReadLease(ctx); err == nil {
		seen.Term, seen.Mine = read, read.Epoch != 0 && read.Epoch == l.Epoch()
	}
	l.seen.Store(seen)
}

// Keep renews the lease and publishes a status with it, until ctx is done or the lease may be lost.
func (l *Lease) Keep(ctx context.Context, status func() string) {
	defer l.until.Store(nil)
	wait := renewEvery
	for l.Valid() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		asked := time.Now()
		held, err := l.renew(ctx, status())
		l.heard(ctx, err)
		switch {
		case err == nil && !held:
			return
		case err != nil:
			wait = renewAgain
		default:
			wait = renewEvery
			l.hold(asked)
			l.Look(ctx)
		}
	}
}

// renew renews the lease, and gives up when it expires without an answer.
func (l *Lease) renew(ctx context.Context, status string) (held bool, err error) {
	until := l.until.Load()
	if until == nil {
		return false, nil
	}
	ctx, cancel := context.WithDeadline(ctx, *until)
	defer cancel()
	return l.Renew(ctx, leaseFor, status)
}

// Seen returns the lease as it was last read.
func (l *Lease) Seen() *Seen { return l.seen.Load() }

// Deliverer returns the last known lease of the delivering relay, nil if none delivers. Its own lease is nobody's
// once it has expired here.
func (l *Lease) Deliverer() *Seen {
	if seen := l.seen.Load(); seen.Held && (!seen.Mine || l.Valid()) {
		return seen
	}
	return nil
}

// followEvery is the time between two attempts to take the lease.
const followEvery = time.Second

// Campaign calls term whenever this relay has the lease, and follow while it hasn't, until ctx is done. Both return soon after their
// context is done.
func (l *Lease) Campaign(ctx context.Context, follow, term func(context.Context)) {
	for ctx.Err() == nil {
		if l.Valid() || l.Take(ctx) || l.await(ctx, follow) {
			term(ctx)
		}
	}
}

// await waits until this relay has the lease. It returns false when ctx is done.
func (l *Lease) await(ctx context.Context, follow func(context.Context)) bool {
	following, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { follow(following) })
	l.log.Info("another relay delivers", zap.String("relay", l.Seen().Holder))
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.LeaseFree():
		case <-time.After(followEvery):
		}
		if l.Take(ctx) {
			return true
		}
	}
}
