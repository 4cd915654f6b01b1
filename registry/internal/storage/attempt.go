package storage

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The constants of the collection, the same in every process and never derived from
// a setting.
const (
	// AttemptLimit is the longest duration of an attempt.
	AttemptLimit = 15 * time.Second
	// ClockError bounds the granularity and the error of the store's clock.
	ClockError = 2 * time.Second
)

// Attempt is a span of at most AttemptLimit in which a caller finds objects by Rely, and then
// writes what needs them or tells a client that they exist. No collection deletes these objects
// before the attempt's writes have taken effect or no longer can. It holds no lock and needn't be
// ended. A nil *Attempt needs nothing that existed before the call.
type Attempt struct {
	begun time.Time
	fresh time.Duration
	wall  time.Time
	token any
	await func(ctx context.Context, key string) error

	mu     sync.Mutex
	denied error
	since  time.Time
}

// NewAttempt is called by stores: begun is now by the store's clock, fresh is the age up to
// which an object needn't be renewed, and token is the store's own. Rely calls await before it looks at
// an object, to wait for a collection that is deleting it; nil if there is nothing to wait for.
func NewAttempt(begun time.Time, fresh time.Duration, token any, await func(ctx context.Context, key string) error) *Attempt {
	return &Attempt{begun: begun, fresh: fresh, wall: time.Now(), token: token, await: await}
}

// Begun returns when the attempt began, by the store's clock.
func (a *Attempt) Begun() time.Time { return a.begun }

// Token returns the token that the store gave to NewAttempt.
func (a *Attempt) Token() any { return a.token }

// Denied returns the error of a renewal that the store refused. An answer may still confirm
// the object, but no write may rely on it.
func (a *Attempt) Denied() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.denied
}

// refused denies the attempt its writes if err says that this process can't write. Otherwise it returns err.
func (a *Attempt) refused(err error) error {
	if !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrDenied) && !errors.Is(err, ErrNoSpace) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied = err
	return nil
}

// RenewBefore makes objects stale that are dated before t, by the store's clock. It is called by stores.
func (a *Attempt) RenewBefore(t time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.After(a.since) {
		a.since = t
	}
}

// Stale reports whether the attempt must renew the object before it relies on it.
func (a *Attempt) Stale(info Info) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return info.Modified.Before(a.begun.Add(-a.fresh)) || info.Modified.Before(a.since) || info.Modified.After(a.begun.Add(AttemptLimit+ClockError))
}

// Left returns how much of AttemptLimit is left.
func (a *Attempt) Left() time.Duration { return AttemptLimit - Elapsed(a.wall) }

// Elapsed returns the time since t, which is by this process's clock. It uses both clocks of the process, as one of them
// stands still while the machine is suspended.
func Elapsed(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// Err returns ErrExpired once the attempt has lasted AttemptLimit: then its result must not be
// sent to a client.
func (a *Attempt) Err() error {
	if a == nil || a.Left() > 0 {
		return nil
	}
	return ErrExpired
}

// Rely describes the object at key like Stat, and then renews it if the attempt finds it stale;
// the date returned is the one from before. If a collection is deleting the object, Rely first waits
// until that has ended; the error wraps ErrTemporary if it takes too long. That this process can't
// write is not an error (see Attempt.Denied). A nil attempt neither waits nor renews.
func Rely(ctx context.Context, s Store, a *Attempt, key string) (Info, error) {
	if a != nil && a.await != nil {
		if err := a.refused(a.await(ctx, key)); err != nil {
			return Info{}, err
		}
	}
	info, err := s.Stat(ctx, key)
	if err != nil || a == nil || a.Denied() != nil || !a.Stale(info) {
		return info, err
	}
	return info, a.refused(s.Apply(ctx, a, Stage{{Key: key, Renew: true}}))
}
