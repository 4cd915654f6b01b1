package filesystem

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// collection is a storage.Collection.
type collection struct {
	s       *Store
	start   time.Time // by the clock of files
	begun   time.Time // by this process
	offline bool
	watch   chan struct{}         // open until Close
	setBack atomic.Pointer[error] // the clock was
	unlock  []func()
}

// Collect implements storage.Store. Attempts that begin after the wait find everything
// stale that is older than the start; those that began before lose their staging directory.
func (s *Store) Collect(ctx context.Context) (storage.Collection, error) {
	unlock, err := s.Lock(ctx, storage.LockCollector, false)
	if err != nil {
		return nil, err
	}
	c := &collection{s: s, watch: make(chan struct{}), unlock: []func(){unlock}}
	switch alone, err := s.Lock(ctx, storage.LockServers, false); {
	case err == nil:
		c.offline, c.unlock = true, append(c.unlock, alone)
	case !errors.Is(err, storage.ErrBusy):
		c.Close()
		return nil, err
	}
	c.begun = time.Now()
	c.start = c.begun.Round(0)
	if err := c.fence(ctx); err != nil {
		c.Close()
		return nil, err
	}
	if !c.offline { // else nothing new comes
		go c.watchClock()
	}
	return c, nil
}

// watchClock notices that the clock was set back, also if it is set forward again before the next deletion.
func (c *collection) watchClock() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-c.watch:
			return
		case <-tick.C:
			if c.checkClock() != nil {
				return
			}
		}
	}
}

// checkClock returns an error if the clock of files was set back since the start: that of the server, on a network file system.
// Without room for the lock's file it looks at this machine's.
func (c *collection) checkClock() error {
	if past := c.setBack.Load(); past != nil {
		return *past
	}
	if c.offline {
		return nil
	}
	elapsed := time.Since(c.begun)
	now, file := time.Now(), c.s.locks+"/"+storage.LockCollector
	var st unix.Stat_t
	if touch(file) == nil && c.s.statFile(file, &st) == nil {
		now = time.Unix(st.Mtim.Unix())
	}
	err := storage.CheckClock(c.start, now, elapsed)
	if err != nil {
		c.setBack.Store(&err)
	}
	return err
}

var errNoRoom = errors.New("the storage is full: stop the registries, and collect again")

func (c *collection) fence(ctx context.Context) error {
	if c.offline {
		_ = c.s.revokeStaging() // leftovers only
		return nil
	}
	if _, err := c.s.keyFile(); isFull(err) { // without it renewals and deletions could overlap
		return &fault{"collect", "/", storage.ErrNoSpace, errNoRoom}
	} else if err != nil {
		return c.s.writeFault("lock", "keys", err)
	}
	select {
	case <-time.After(c.s.wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.s.revokeStaging(); err != nil {
		return c.s.writeFault("collect", "/.staging", err)
	}
	return nil
}

// Start implements storage.Collection.
func (c *collection) Start() time.Time { return c.start }

// Offline implements storage.Collection.
func (c *collection) Offline() bool { return c.offline }

// Delete implements storage.Collection. The volume is flushed before, so that what others
// have deleted and the collection didn't see can't come back, and after.
func (c *collection) Delete(ctx context.Context, infos []storage.Info) (kept []storage.Info, err error) {
	if len(infos) == 0 {
		return nil, nil
	}
	if err := c.checkClock(); err != nil {
		return nil, err
	}
	volume, err := openDir(c.s.rootDir())
	if err != nil {
		return nil, c.s.writeFault("delete", infos[0].Key, err)
	}
	defer closeFD(volume)
	if err := syncVolume(volume); err != nil {
		return nil, c.s.writeFault("flush before deleting", infos[0].Key, err)
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return kept, err
		}
		now, unchanged, err := c.s.deleteUnchanged(info)
		if err != nil {
			return kept, err
		}
		if !unchanged {
			kept = append(kept, now)
		}
	}
	if err := syncVolume(volume); err != nil {
		return kept, c.s.writeFault("flush after deleting", infos[0].Key, err)
	}
	return kept, nil
}

// deleteUnchanged deletes an object that is as info describes it. An absent one counts as
// unchanged.
func (s *Store) deleteUnchanged(info storage.Info) (now storage.Info, unchanged bool, err error) {
	name, err := s.abs("delete", info.Key)
	if err != nil {
		return now, false, err
	}
	unlock, err := s.lockKey(info.Key)
	if err != nil {
		return now, false, err
	}
	var st unix.Stat_t
	if err = s.statFile(name, &st); err == nil {
		now = s.info(info.Key, &st)
		// Right after a change there was no version; the date has to do.
		if !now.Modified.Equal(info.Modified) || info.Version != "" && token(&st) != info.Version {
			unlock()
			return now, false, nil
		}
		err = s.unlinkKey(info.Key, name)
	} else if isNotExist(err) && !s.vanished() {
		err = nil
	}
	unlock()
	if err != nil {
		return now, false, s.writeFault("delete", info.Key, err)
	}
	s.prune(dirOf(name), math.MaxInt)
	return now, true, nil
}

// Close implements storage.Collection.
func (c *collection) Close() {
	if c.unlock != nil {
		close(c.watch)
	}
	for _, unlock := range c.unlock {
		unlock()
	}
	c.unlock = nil
}
