package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

const (
	aloneName      = "alone"
	wantedName     = "wanted"
	collectionName = "collection"
	oldCollector   = "collector"
	oldServers     = "servers"
	pollJoin       = 5 * time.Millisecond
)

// ErrOldVersion is inside the ErrBusy beside a process of the version that
// coordinates in another way.
var ErrOldVersion = errors.New("a registry of an older version has the storage open")

var (
	errOldServer    = fmt.Errorf("%w; stop it first", ErrOldVersion)
	errOldCollector = fmt.Errorf("%w to collect garbage; wait for its end", ErrOldVersion)
)

// locks are files and directories held locked by being open.
type locks []int

func (l locks) drop() {
	for _, fd := range l {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// Join implements storage.Coordinator.
func (c *Coordinator) Join(ctx context.Context) (storage.Lease, error) {
	for {
		held, err := c.join()
		if err == nil {
			c.forget()                           // who was exclusive may have published a run
			unlink(c.s.locks + "/" + wantedName) //nolint:errcheck // mostly not there
			c.reserve()
			return newLease(held.drop), nil
		}
		if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return nil, c.s.writeFault("join", "/", err)
		}
		if fd, err := c.s.openLock(wantedName, unix.O_RDONLY); err == nil {
			closeFD(fd)
		}
		select {
		case <-time.After(pollJoin):
		case <-ctx.Done():
			return nil, &fault{"join", "/", storage.ErrBusy, ctx.Err()}
		}
	}
}

// join is EWOULDBLOCK while somebody is exclusive.
func (c *Coordinator) join() (held locks, err error) {
	if held, err = c.refuseOld(); err != nil {
		return nil, err
	}
	more, err := c.presence(unix.LOCK_SH)
	if err != nil {
		held.drop()
		return nil, err
	}
	return append(held, more...), nil
}

// presence locks what tells who has the storage open: the root directory, which
// needs no room, and a file, for machines that do not see locks of directories
// and for the version before.
func (c *Coordinator) presence(how int) (locks, error) {
	root, err := c.s.lockRoot(how)
	if err != nil {
		return nil, err
	}
	held := locks{root}
	file, err := c.s.lock(aloneName, how)
	if err == nil {
		return append(held, file), nil
	}
	if root >= 0 && without(err) == nil {
		return held, nil
	}
	held.drop()
	return nil, err
}

// refuseOld fails if the version before is at work, and keeps its collector from
// beginning.
func (c *Coordinator) refuseOld() (locks, error) {
	entries, _ := os.ReadDir(c.s.locks + "/" + oldServers)
	for _, e := range entries {
		if c.oldServes(c.s.locks + "/" + oldServers + "/" + e.Name()) {
			return nil, &fault{"join", "/", storage.ErrBusy, errOldServer}
		}
	}
	fd, err := c.s.lock(oldCollector, unix.LOCK_SH)
	if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
		return nil, &fault{"join", "/", storage.ErrBusy, errOldCollector}
	}
	if err != nil {
		return nil, without(err)
	}
	return locks{fd}, nil
}

// oldServes says whether a server of the version before has the file locked. It
// removes one that no server has. Somebody else may look at the same moment.
func (c *Coordinator) oldServes(file string) bool {
	fd, err := open(file, c.s.lockMode(unix.LOCK_EX))
	if err != nil {
		return false
	}
	defer closeFD(fd)
	ctx, cancel := context.WithTimeout(context.Background(), 10*maxPoll)
	defer cancel()
	if lockSoon(ctx, fd) != nil {
		return true
	}
	unlink(file) //nolint:errcheck // the next one finds it again
	return false
}

// spareRoom is how much is free where files are made before they are needed: they
// take a quarter of it at most.
const spareRoom = 4 * pendingSize

// reserve makes, where there is room to spare, the files that a collector needs
// on a full volume.
func (c *Coordinator) reserve() {
	var st unix.Statfs_t
	if retry(func() error { return unix.Statfs(c.s.rootDir(), &st) }) != nil || st.Bavail*uint64(st.Bsize) < spareRoom {
		return
	}
	names := []string{aloneName, collectionName, oldCollector, epochName, gateName + "0", gateName + "1"}
	if st.Files == 0 || st.Ffree > 8*keyLocks { // some make inodes as they need them
		for n := range uint64(keyLocks) {
			names = append(names, keyLockName(n))
		}
	}
	for _, name := range names {
		fd, err := c.s.openLock(name, unix.O_RDONLY)
		if err != nil {
			return
		}
		closeFD(fd)
	}
	if fd, err := c.s.openLock(pendingName, unix.O_RDWR); err == nil {
		_ = allocate(fd) // Publish tries again
		closeFD(fd)
	}
}

// Exclusive implements storage.Coordinator.
func (c *Coordinator) Exclusive(context.Context) (storage.Lease, error) {
	if c.sole.Load() {
		return newLease(func() {}), nil // until Lock is released
	}
	held, err := c.refuseOld()
	if err != nil {
		return nil, c.s.writeFault("be exclusive", "/", err)
	}
	more, err := c.presence(unix.LOCK_EX)
	if err != nil {
		held.drop()
		if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			err = &fault{"be exclusive", "/", storage.ErrBusy, nil}
		}
		return nil, c.s.writeFault("be exclusive", "/", err)
	}
	unlink(c.s.locks + "/" + wantedName) //nolint:errcheck // of one that died; who waits makes it again
	l := newLease(append(held, more...).drop)
	l.wanted = func() bool {
		var st unix.Stat_t
		return stat(c.s.locks+"/"+wantedName, &st) == nil
	}
	return l, nil
}

// Lock implements storage.Coordinator.
func (c *Coordinator) Lock(ctx context.Context, name string) (storage.Lease, error) {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return nil, &fault{"lock", strconv.Quote(name), storage.ErrInvalidKey, nil}
	}
	var held locks
	var err error
	if name == storage.CollectorLock {
		held, err = c.lockCollector(ctx)
	} else {
		held, err = c.lockName(ctx, "lock-"+name)
	}
	if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
		err = &fault{"lock", name, storage.ErrBusy, nil}
	}
	if err != nil {
		return nil, c.s.writeFault("lock", name, err)
	}
	return newLease(func() {
		if name == storage.CollectorLock {
			c.sole.Store(false)
		}
		held.drop()
	}), nil
}

// lockName locks a file alone. It tries again for a moment, because others look
// whether it is locked by locking it.
func (c *Coordinator) lockName(ctx context.Context, name string) (locks, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*maxPoll)
	defer cancel()
	fd, err := c.s.openLock(name, c.s.lockMode(unix.LOCK_EX))
	if err != nil {
		return nil, err
	}
	if err := lockSoon(ctx, fd); err != nil {
		closeFD(fd)
		if ctx.Err() != nil {
			err = unix.EWOULDBLOCK
		}
		return nil, err
	}
	return locks{fd}, nil
}

// lockCollector locks the collector's file, or the root directory where there is
// no room for it. It withdraws what a collector that died has listed.
func (c *Coordinator) lockCollector(ctx context.Context) (locks, error) {
	old, err := c.refuseOld()
	if err != nil {
		return nil, err
	}
	held, err := c.lockName(ctx, collectionName)
	if isFull(err) {
		full := err
		if held, err = c.presence(unix.LOCK_EX); err == nil {
			c.sole.Store(true)
			return append(held, old...), nil
		}
		if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			err = &fault{"lock", storage.CollectorLock, storage.ErrBusy, c.s.writeFault("lock", storage.CollectorLock, full)}
		}
	}
	if err == nil {
		err = c.withdraw()
	}
	if err != nil {
		append(held, old...).drop()
		return nil, err
	}
	return append(held, old...), nil
}

// withdraw makes the list empty if it is not.
func (c *Coordinator) withdraw() error {
	c.mu.Lock()
	p, err := c.read()
	c.mu.Unlock()
	if err == nil && p != none {
		err = c.publish(storage.Pending{})
	}
	return err
}
