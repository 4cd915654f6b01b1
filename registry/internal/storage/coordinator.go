package storage

import (
	"context"
	"errors"
	"time"
)

// ErrBusy means that another process holds what was asked for.
var ErrBusy = errors.New("another process holds it")

// Coordinator lets processes that share a store agree. Nothing is held for ever
// by a process that has died.
type Coordinator interface {
	// Join announces that this process serves the store. It waits, as long as ctx
	// lasts, for a holder of Exclusive, who is asked to yield. ErrBusy once ctx has
	// ended meanwhile.
	Join(ctx context.Context) (Lease, error)

	// Begin opens a section of a writer: until it ends, nothing is deleted by a collection
	// that the writer found to be there and that was not Listed. It costs next to nothing.
	Begin(ctx context.Context) (Section, error)

	// Barrier returns once each section has ended, or can change nothing any more, that
	// began before, in any process. New sections are not held up.
	Barrier(ctx context.Context) error

	// Lock makes the caller the only holder of name, which is a short word. It does not
	// wait: ErrBusy.
	Lock(ctx context.Context, name string) (Lease, error)

	// Exclusive keeps everybody from joining until it is released. ErrBusy if somebody
	// has joined.
	Exclusive(ctx context.Context) (Lease, error)

	// Publish replaces what the collection of garbage lets writers know. A section that
	// does not see it is one that a later Barrier waits for, or began before its process
	// has joined; it is void once the process that published
	// it has died and can have no request under way. Only the holder of
	// Lock(CollectorLock) calls it; ErrExpired if it is seen that another process has that by now.
	Publish(ctx context.Context, p Pending) error
}

// CollectorLock is the name of the lock that a collection holds.
const CollectorLock = "collector"

// MaxPending is how many keys a Pending may list. Where a store has less room,
// Publish fails with ErrNoSpace.
const MaxPending = 64 << 10

// Pending is what a collection publishes. The zero value says that none is under
// way.
type Pending struct {
	// Run names the collection, "" for none. While there is one, a writer that links
	// bytes which exist already leaves a mark for it.
	Run string
	// Keys are the objects that are about to be deleted. A writer that needs one of
	// them ends its section and waits until the list is withdrawn.
	Keys []string
}

// Section is a span of time in which a writer looks at objects and then tells a
// client of them or writes what relies on them. One goroutine uses it.
type Section interface {
	// Run names the collection that is under way, "" if there is none.
	Run() string
	// Listed says whether one of the keys is about to be deleted. It may say so of others, rarely.
	Listed(keys ...string) bool
	// Deadline is when the section can change nothing any more, the zero time for never.
	// Who tells a client something looks at it before.
	Deadline() time.Time
	// End ends the section. Calling it again does nothing.
	End()
}

// Lease is something held until it is released or lost.
type Lease interface {
	// Lost is closed when the lease is not held any more.
	Lost() <-chan struct{}
	// Wanted says whether somebody waits for the holder to release it.
	Wanted() bool
	// Release gives it back. Calling it again does nothing.
	Release()
}
