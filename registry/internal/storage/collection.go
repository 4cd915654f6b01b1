package storage

import (
	"context"
	"time"
)

// Names of locks.
const (
	// LockServers is held shared by every process that serves the store.
	LockServers = "servers"
	// LockCollector is held by Collect.
	LockCollector = "collector"
)

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
	// call. After an error, some of them may be gone.
	Delete(ctx context.Context, infos []Info) (kept []Info, err error)

	// Close ends the collection.
	Close()
}
