package filesystem

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// # Sections and barriers
//
// There are two gates, files that are locked. A section holds one of them shared,
// whichever the epoch says; the epoch is the length of a third file. A barrier
// waits until it gets the gate that nobody should be at, moves the epoch on, so
// that new sections take that one, and waits until it gets the other. Each gate
// was then free for a moment after the barrier began, so all old sections have
// ended. This is how kernels wait for readers (sleepable RCU). That a section may
// have read an epoch before it locks its gate does not matter: either a barrier
// waits for it, or it has seen nothing yet.
//
// The sections of a process share one lock, which it keeps for holdGate after it was
// taken, because a lock costs more than all the rest; and they share what was read
// of the list behind that lock, for as long: a barrier that follows a later list
// waits for the lock, and so for all of them.

const (
	epochName = "epoch"
	gateName  = "gate-"
	holdGate  = 2 * time.Millisecond // also how long epoch and list are believed
	maxPoll   = 2 * time.Millisecond // between two looks at a gate
)

// gate is this process's hold of one of the files. It is guarded by
// Coordinator.mu.
type gate struct {
	file     lockFile
	held     bool
	sections int
	expired  bool // the lock was held for long enough
	retired  bool // nobody enters any more
	timer    *time.Timer
}

// epoch is guarded by Coordinator.mu.
type epoch struct {
	file lockFile
	at   time.Time // when n was looked up
	n    int64
}

// newGates needs c.mu, or nobody else who has c.
func (c *Coordinator) newGates() {
	for i := range c.gates {
		g := &gate{file: lockFile{name: gateName + strconv.Itoa(i)}}
		g.timer = time.AfterFunc(time.Hour, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			g.expired = true
			g.rest()
		})
		g.timer.Stop()
		c.gates[i] = g
	}
}

// section is a storage.Section.
type section struct {
	c       *Coordinator
	gate    *gate // or nil, see enter
	pending *pending
	ended   atomic.Bool
}

// Begin implements storage.Coordinator.
func (c *Coordinator) Begin(ctx context.Context) (storage.Section, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.enter()
	if err != nil {
		return nil, c.s.writeFault("begin", "/", err)
	}
	if g == nil || c.known == nil {
		if c.known, err = c.read(); err != nil {
			g.leave()
			return nil, c.s.readFault("begin", "/", err)
		}
	}
	return &section{c: c, gate: g, pending: c.known}, nil
}

// Run implements storage.Section.
func (s *section) Run() string { return s.pending.run }

// Listed implements storage.Section.
func (s *section) Listed(keys ...string) bool { return s.pending.lists(keys) }

// Deadline implements storage.Section.
func (s *section) Deadline() time.Time { return time.Time{} }

// End implements storage.Section.
func (s *section) End() {
	if s.ended.Swap(true) {
		return
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.gate.leave()
}

// enter takes a gate. It is nil where files cannot be made for lack of room or
// because all is read-only: there nobody collects beside others either. It needs
// c.mu.
func (c *Coordinator) enter() (*gate, error) {
	if time.Since(c.epoch.at) >= holdGate {
		if err := c.lookUp(); err != nil {
			return nil, without(err)
		}
	}
	for range attempts {
		g := c.gates[c.epoch.n&1]
		if g.held {
			g.sections++
			return g, nil
		}
		c.known = nil // of another time
		err := g.enter(c.s)
		if err == nil {
			return g, nil
		}
		if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return nil, without(err)
		}
		if err := c.lookUp(); err != nil { // a barrier has it, and has moved the epoch on before
			return nil, without(err)
		}
	}
	return nil, unix.EBUSY
}

// without is nil for errors with which a section has to do without a file: it is
// not there and cannot be made.
func without(err error) error {
	if isFull(err) || errors.Is(err, unix.EROFS) || errors.Is(err, errNoFile) {
		return nil
	}
	return err
}

// lookUp asks for the epoch. It needs c.mu. If somebody has deleted the files it
// begins with new ones.
func (c *Coordinator) lookUp() error {
	for range attempts {
		fd, err := c.epoch.file.open(c.s, unix.O_RDONLY)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Nlink > 0 {
			c.epoch.n, c.epoch.at, c.known = st.Size, time.Now(), nil
			return nil
		}
		c.closeFiles()
		c.newGates()
	}
	return unix.EAGAIN
}

// enter locks the gate. EWOULDBLOCK if a barrier has it.
func (g *gate) enter(s *Store) error {
	fd, err := g.file.open(s, unix.O_RDONLY)
	if err == nil {
		err = flock(fd, unix.LOCK_SH)
	}
	if err != nil {
		return err
	}
	g.held, g.expired, g.sections = true, false, 1
	g.timer.Reset(holdGate)
	return nil
}

// leave ends a section at the gate, which may be nil.
func (g *gate) leave() {
	if g != nil {
		g.sections--
		g.rest()
	}
}

// rest gives the lock back if it was held for long enough and nobody needs it.
func (g *gate) rest() {
	if g.sections > 0 || !g.held || !g.expired && !g.retired {
		return
	}
	g.held = false
	if g.retired {
		g.file.close()
		return
	}
	_ = flock(g.file.fd-1, unix.LOCK_UN)
}

// retire closes the gate when the last section has ended.
func (g *gate) retire() {
	g.retired = true
	g.timer.Stop()
	if !g.held {
		g.file.close()
	}
	g.rest()
}

// Barrier implements storage.Coordinator. Of several at the same time one waits
// for the other.
func (c *Coordinator) Barrier(ctx context.Context) error {
	if err := c.barrier(ctx); err != nil {
		return c.s.writeFault("wait for writers", "/", err)
	}
	return nil
}

func (c *Coordinator) barrier(ctx context.Context) error {
	fd, err := c.s.openLock(epochName, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := lockSoon(ctx, fd); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := c.pass(ctx, st.Size+1); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Ftruncate(fd, st.Size+1) }); err != nil {
		return err
	}
	return c.pass(ctx, st.Size)
}

// pass waits until all have left the gate of that epoch.
func (c *Coordinator) pass(ctx context.Context, epoch int64) error {
	c.mu.Lock()
	g := c.gates[epoch&1]
	g.expired = true
	g.rest()
	c.mu.Unlock()
	fd, err := c.s.openLock(g.file.name, c.s.lockMode(unix.LOCK_EX))
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return lockSoon(ctx, fd)
}

// lockSoon locks the file alone as soon as nobody else has it.
func lockSoon(ctx context.Context, fd int) error {
	for poll := 50 * time.Microsecond; ; poll = min(2*poll, maxPoll) {
		err := flock(fd, unix.LOCK_EX)
		if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
