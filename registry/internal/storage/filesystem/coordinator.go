package filesystem

import (
	"sync"
	"sync/atomic"

	"slipway/registry/internal/storage"
)

// Coordinator is a storage.Coordinator by locks (flock) on files in the directory
// of locks. The kernel drops those of a process that dies.
//
//	alone            held shared by each who has joined, alone by Exclusive
//	wanted           exists while somebody waits to join
//	collection       held by the one collector
//	lock-<name>      held by the holder of that Lock
//	gate-0, gate-1   held shared by sections
//	epoch            its length says which gate new sections take
//	pending          what the collector has published
//	key-<n>          held while an object changes, see keyLock
//	collector        of the version before: its collector's. Held shared here, so that it does not run
//	servers/         of the version before: each of its servers locks a file in it
type Coordinator struct {
	s *Store

	mu     sync.Mutex // guards what follows
	gates  [2]*gate
	epoch  epoch
	list   lockFile
	latest *pending // as read last
	known  *pending // what sections know: read when their gate was locked already; or nil

	sole atomic.Bool // Lock holds the root directory, because there was no room for a file
}

var _ storage.Coordinator = (*Coordinator)(nil)

func (c *Coordinator) open(s *Store) {
	c.s = s
	c.list.name, c.epoch.file.name = pendingName, epochName
	c.newGates()
}

func (c *Coordinator) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeFiles()
}

// closeFiles needs c.mu. Sections that are under way keep their gates.
func (c *Coordinator) closeFiles() {
	c.epoch.file.close()
	for _, g := range c.gates {
		g.retire()
	}
	c.list.close()
	c.known = nil
}

// lease is a storage.Lease.
type lease struct {
	once    sync.Once
	release func()
	wanted  func() bool // or nil
	lost    chan struct{}
}

func newLease(release func()) *lease { return &lease{release: release, lost: make(chan struct{})} }

// Lost implements storage.Lease. A lock on a file is not lost.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Wanted implements storage.Lease.
func (l *lease) Wanted() bool { return l.wanted != nil && l.wanted() }

// Release implements storage.Lease.
func (l *lease) Release() {
	l.once.Do(func() {
		l.release()
		close(l.lost)
	})
}
