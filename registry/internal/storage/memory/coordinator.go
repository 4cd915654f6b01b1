package memory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/storage"
)

// coordination is the storage.Coordinator of all who use one Memory.
type coordination struct {
	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when somebody who waits has to look again
	sections  map[*section]struct{}
	locks     map[string]bool
	joined    int
	exclusive bool
	joining   atomic.Int32 // how many wait for an exclusive holder
	run       string
	listed    map[string]bool
}

func newCoordination() *coordination {
	return &coordination{
		changed:  make(chan struct{}),
		sections: map[*section]struct{}{},
		locks:    map[string]bool{},
	}
}

// notify needs c.mu.
func (c *coordination) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait returns once ready, which is called with c.mu held, says true.
func (c *coordination) wait(ctx context.Context, ready func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := ready(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Join implements storage.Coordinator.
func (c *coordination) Join(ctx context.Context) (storage.Lease, error) {
	c.joining.Add(1)
	defer c.joining.Add(-1)
	err := c.wait(ctx, func() bool {
		if !c.exclusive {
			c.joined++
		}
		return !c.exclusive
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrBusy, err)
	}
	return c.lease(func() { c.joined-- }), nil
}

// Exclusive implements storage.Coordinator.
func (c *coordination) Exclusive(context.Context) (storage.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exclusive || c.joined > 0 {
		return nil, storage.ErrBusy
	}
	c.exclusive = true
	l := c.lease(func() { c.exclusive = false })
	l.wanted = func() bool { return c.joining.Load() > 0 }
	return l, nil
}

// Lock implements storage.Coordinator.
func (c *coordination) Lock(_ context.Context, name string) (storage.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks[name] {
		return nil, storage.ErrBusy
	}
	c.locks[name] = true
	return c.lease(func() {
		delete(c.locks, name)
		if name == storage.CollectorLock {
			c.run, c.listed = "", nil
		}
	}), nil
}

// Publish implements storage.Coordinator.
func (c *coordination) Publish(_ context.Context, p storage.Pending) error {
	if len(p.Keys) > storage.MaxPending {
		return fmt.Errorf("%d keys listed: %w", len(p.Keys), storage.ErrTooLarge)
	}
	listed := make(map[string]bool, len(p.Keys))
	for _, key := range p.Keys {
		listed[key] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.listed = p.Run, listed
	return nil
}

// Begin implements storage.Coordinator.
func (c *coordination) Begin(context.Context) (storage.Section, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &section{c: c, run: c.run, listed: c.listed}
	c.sections[s] = struct{}{}
	return s, nil
}

// Barrier implements storage.Coordinator.
func (c *coordination) Barrier(ctx context.Context) error {
	c.mu.Lock()
	before := make([]*section, 0, len(c.sections))
	for s := range c.sections {
		before = append(before, s)
	}
	c.mu.Unlock()
	return c.wait(ctx, func() bool {
		for _, s := range before {
			if !s.ended.Load() {
				return false
			}
		}
		return true
	})
}

type section struct {
	c      *coordination
	run    string
	listed map[string]bool // never changes
	ended  atomic.Bool
}

func (s *section) Run() string { return s.run }

func (s *section) Listed(keys ...string) bool {
	for _, key := range keys {
		if s.listed[key] {
			return true
		}
	}
	return false
}

func (s *section) Deadline() time.Time { return time.Time{} }

// Ended says whether End was called.
func (s *section) Ended() bool { return s.ended.Load() }

func (s *section) End() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.ended.Swap(true) {
		delete(s.c.sections, s)
		s.c.notify()
	}
}

// lease returns what gives something back once, with c.mu held.
func (c *coordination) lease(release func()) *lease {
	return &lease{c: c, release: release, lost: make(chan struct{}), wanted: func() bool { return false }}
}

type lease struct {
	c       *coordination
	release func() // nil once called
	lost    chan struct{}
	wanted  func() bool
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Wanted() bool { return l.wanted() }

func (l *lease) Release() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.release != nil {
		l.release()
		l.release = nil
		close(l.lost)
		l.c.notify()
	}
}
