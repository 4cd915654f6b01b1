package filesystem

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// # Sections and barriers
//
// There are two gates, files that are locked (flock). A writer's section holds
// one of them shared, whichever the epoch says; the epoch is the length of a
// third file, so that asking for it is one look. A barrier moves the epoch on,
// so that new sections take the other gate, and waits until it gets the first
// alone; then it does the same the other way round. Each gate was then free for
// a moment after the barrier began, so all old sections have ended, and
// sections that keep coming were always at the other gate. This is how kernels
// wait for readers (sleepable RCU). That a section may have read an epoch
// before it locks its gate does not matter: either a barrier waits for it, or
// it has seen nothing yet.
//
// The kernel drops the locks of a process that dies.

// gate is this process's hold of one of the files.
type gate struct {
	mu       sync.Mutex
	sections int
	fd       int // locked while there are sections
}

// epochAge is how long the epoch is believed. A section at the gate that it
// should have left alone does no harm but to let a barrier wait for it.
const epochAge = time.Millisecond

// epochSeen is the epoch as it was looked up last.
type epochSeen struct {
	at    time.Time
	epoch int64
}

var gateNames = [2]string{"gate-0", "gate-1"}

const (
	epochName = "epoch"
	pollGate  = 2 * time.Millisecond
)

// Enter implements driver.Driver.
func (d *Driver) Enter(context.Context) (leave func(), err error) {
	i := d.lateEpoch() & 1
	g := &d.gates[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sections == 0 {
		if g.fd, err = d.holdGate(gateNames[i]); err != nil {
			return nil, d.writeFault("enter", "/", err)
		}
	}
	g.sections++
	return g.leave, nil
}

// holdGate opens a gate and holds it with others.
func (d *Driver) holdGate(name string) (fd int, err error) {
	if fd, err = d.private(name); err != nil {
		return -1, err
	}
	if err := retry(func() error { return unix.Flock(fd, unix.LOCK_SH) }); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sections--; g.sections == 0 {
		closeFD(g.fd)
	}
}

// lateEpoch is the epoch, or one of a moment ago.
func (d *Driver) lateEpoch() int64 {
	now := time.Now()
	if seen := d.epochSeen.Load(); seen != nil && now.Sub(seen.at) < epochAge {
		return seen.epoch
	}
	epoch := d.epoch()
	d.epochSeen.Store(&epochSeen{now, epoch})
	return epoch
}

func (d *Driver) epoch() int64 {
	var st unix.Stat_t
	if stat(d.locks+"/"+epochName, &st) != nil {
		return 0
	}
	return st.Size
}

// Barrier implements driver.Driver. Of several at the same time one waits for the
// other: each has to see both gates free.
func (d *Driver) Barrier(ctx context.Context) error {
	fd, err := d.private(epochName)
	if err != nil {
		return d.writeFault("wait for writers", "/", err)
	}
	defer closeFD(fd)
	err = lockSoon(ctx, fd)
	for range gateNames {
		if err == nil {
			err = d.passGate(ctx, fd)
		}
	}
	if err != nil {
		return d.writeFault("wait for writers", "/", err)
	}
	return nil
}

// passGate sends new sections to the other gate and waits for the old ones. fd is
// the file of the epoch, which nobody else moves on meanwhile.
func (d *Driver) passGate(ctx context.Context, fd int) error {
	epoch := d.epoch()
	if err := retry(func() error { return unix.Ftruncate(fd, epoch+1) }); err != nil {
		return err
	}
	gate, err := d.private(gateNames[epoch&1])
	if err != nil {
		return err
	}
	defer closeFD(gate)
	return lockSoon(ctx, gate)
}

// lockSoon locks the file alone as soon as nobody else has it.
func lockSoon(ctx context.Context, fd int) error {
	for {
		err := retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return err
		}
		select {
		case <-time.After(pollGate):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
