package filesystem

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// dirFlusher flushes directories. Callers that need the same directory while it is being
// flushed share the next flush.
type dirFlusher struct {
	mu            sync.Mutex
	running, next map[string]*dirFlush
	durable       map[string]dirID // by Store.above, an optimization
	// failures counts the failed flushes of all directories. The kernel reports lost entries
	// once, so a failure concerns every commit in progress.
	failures atomic.Uint64
}

type dirFlush struct {
	done chan struct{}
	err  error
}

// maxDurable bounds the memory of dirFlusher.durable.
const maxDurable = 4096

// flush flushes the entries that dir has now.
func (d *dirFlusher) flush(dir string) error {
	d.mu.Lock()
	before := d.running[dir]
	f, joined := d.next[dir]
	switch {
	case before == nil:
		f = &dirFlush{done: make(chan struct{})}
		d.running[dir] = f
	case !joined:
		f = &dirFlush{done: make(chan struct{})}
		d.next[dir] = f
	}
	d.mu.Unlock()
	if joined {
		<-f.done
		return f.err
	}
	if before != nil {
		<-before.done
	}
	f.err = d.flushNow(dir)
	d.mu.Lock()
	if after := d.next[dir]; after != nil {
		d.running[dir] = after
		delete(d.next, dir)
	} else {
		delete(d.running, dir)
	}
	d.mu.Unlock()
	close(f.done)
	return f.err
}

func (d *dirFlusher) flushNow(dir string) error {
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	err = retry(func() error { return unix.Fsync(fd) })
	if unsupported(err) { // CIFS and some FUSE file systems have nothing better
		return nil
	}
	if err != nil {
		d.failures.Add(1)
	}
	return err
}

// flushDirs makes the entries of directories durable, and the directories themselves: each
// may be new, or made by another process that hasn't flushed its parent yet.
func (s *Store) flushDirs(dirs []string) error {
	for range retries {
		all := map[string]dirID{}
		for _, dir := range dirs {
			if err := s.above(dir, all); err != nil {
				return err
			}
		}
		var err error
		// Those above others come first: they are shared, and a file system with a journal has
		// nothing left to do for the rest.
		for _, dir := range slices.Sorted(maps.Keys(all)) {
			if err = s.dirs.flush(dir); err != nil {
				break
			}
		}
		if err == nil {
			s.dirs.remember(all)
			return nil
		}
		if !isNotExist(err) || s.vanished() { // else one was removed with its last entry
			return err
		}
	}
	return unix.ENOENT
}

// above adds to all the directories whose flush makes the entries of dir durable: itself,
// and while one may be new, the one above it. Directories whose own entries are durable are
// remembered by their identity, which a new directory of the same name doesn't have.
func (s *Store) above(dir string, all map[string]dirID) error {
	for {
		id, err := identify(dir)
		if isNotExist(err) && dir != s.rootDir() && !s.vanished() {
			dir = dirOf(dir) // it was removed with its last entry
			continue
		}
		if err != nil {
			return err
		}
		s.dirs.mu.Lock()
		known, ok := s.dirs.durable[dir]
		s.dirs.mu.Unlock()
		all[dir] = id
		if ok && known == id || dir == s.rootDir() {
			return nil
		}
		dir = dirOf(dir)
	}
}

func (d *dirFlusher) remember(all map[string]dirID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir, id := range all {
		if id.sec == 0 { // without a birth, a new directory may look like the one before
			continue
		}
		for other := range d.durable {
			if len(d.durable) < maxDurable {
				break
			}
			delete(d.durable, other) // any of them
		}
		d.durable[dir] = id
	}
}
