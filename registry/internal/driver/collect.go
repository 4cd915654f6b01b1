package driver

import (
	"context"
	"errors"
	"time"
)

// Reasons that those who collect garbage tell apart.
var (
	ErrExist = errors.New("something is there already")
	ErrBusy  = errors.New("another process is at it")
)

// Collectable is what the collection of garbage needs of a driver, and what
// writers need beside it. Nothing here is held by a process that has died.
type Collectable interface {
	// Now is the time by the storage's own clock, by which Info.Changed and Info.Moved
	// go.
	Now() time.Time

	// Touch sets when the object at path was last changed, the zero time
	// standing for now. ErrNotExist; ErrReadOnly also where only somebody else
	// may do that.
	Touch(ctx context.Context, path string, at time.Time) error

	// SetAside moves the object at path to aside, in one step. It keeps its
	// bytes and its time of change. ErrNotExist if nothing is at path, ErrExist
	// if something is at aside. It is durable after Flush.
	SetAside(ctx context.Context, path, aside string) error

	// Restore moves the object at aside back to path, in one step and durably.
	// Of it, another Restore and a removal of aside at the same time one does
	// it and the others find nothing. ErrNotExist if nothing is at aside,
	// ErrExist if something is at path: that stays.
	Restore(ctx context.Context, aside, path string) error

	// Prune removes dir if nothing is in it; else, and if it is not there, it
	// does nothing. A writer that needs the directory makes it again.
	Prune(ctx context.Context, dir string) error

	// Flush makes durable what SetAside and Discard took out of the directories
	// dirs, or out of those in them.
	Flush(ctx context.Context, dirs ...string) error

	// Enter begins a section of a writer who looks at objects and then writes
	// what relies on them; leave ends it.
	Enter(ctx context.Context) (leave func(), err error)

	// Barrier waits until each section has ended, in any process, that was
	// entered before Barrier was called. It holds up nobody who enters
	// meanwhile, and those who come later do not keep it waiting for ever. Several
	// may wait at the same time.
	Barrier(ctx context.Context) error

	// Lock makes the caller the only collector. ErrBusy if there is another.
	Lock(ctx context.Context) (unlock func(), err error)

	// Alone keeps everybody from serving the storage until release. ErrBusy if
	// somebody serves it. Once wanted is true, somebody waits to.
	Alone(ctx context.Context) (wanted func() bool, release func(), err error)

	// Serve tells others that a registry serves the storage, until leave. It
	// waits for who is Alone.
	Serve(ctx context.Context) (leave func(), err error)

	// Servers is the number of those that Serve.
	Servers(ctx context.Context) (int, error)

	// Requested notes that somebody who serves the storage has requests to answer
	// at this moment. It is called some times a second while that is so.
	Requested(ctx context.Context)

	// Busy says whether Requested was called within the last second, in any
	// process. It is a hint: who works beside servers rests while they are busy.
	Busy(ctx context.Context) bool

	// Crew is a token that changes whenever somebody who serves comes or goes.
	Crew(ctx context.Context) string
}
