package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Names of locks.
const (
	// LockServers is held shared by every process that serves the store.
	LockServers = "servers"
	// LockCollector is held by Collect.
	LockCollector = "collector"
)

// ErrClock ends a collection, which may be started again.
var ErrClock = errors.New("the clock of the storage was set back")

// CheckClock returns an error that wraps ErrClock if the store's clock, which is at now, was set back by more than ClockError
// since it was at start. elapsed is the time since then by a clock that can't be set.
func CheckClock(start, now time.Time, elapsed time.Duration) error {
	if lag := start.Add(elapsed).Sub(now.Round(0)); lag > ClockError {
		return fmt.Errorf("%w by %v during the collection, which may take new data for old and deletes nothing more: collect again", ErrClock, lag.Round(time.Second))
	}
	return nil
}

// Collection deletes objects that no attempt has renewed since it began. It is not safe for concurrent use.
type Collection interface {
	// Start returns the time at which the collection began, by the store's clock. Once Collect has
	// returned, no attempt that relies on an object dated before Start without having renewed it
	// can change anything.
	Start() time.Time

	// Offline reports whether no process serves the store until Close.
	Offline() bool

	// Delete durably deletes the objects whose Modified and Version are those given,
	// and returns the others that still exist. Every info was read after Collect returned
	// and, unless Offline, is dated before Start. It may take minutes; callers pass many objects per
	// call. After an error, some of them may be gone. ErrClock if the store's clock was set back
	// since Start: what is new may look old then.
	Delete(ctx context.Context, infos []Info) (kept []Info, err error)

	// Close ends the collection.
	Close()
}
