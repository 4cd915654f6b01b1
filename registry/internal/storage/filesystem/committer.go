package filesystem

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// committer publishes and flushes for all calls of Apply, in rounds. Who comes while
// there is no round begins one at once, in its own thread. All who come meanwhile wait
// for the next one, which one of them leads for all: so the more there are, the fewer
// flushes each of them costs, and none waits for a mutex or for the kernel's locks on a
// directory.
//
// A round takes each commit a step further, at most to the end of a stage: it flushes the new
// files, publishes, and flushes the directories that got or lost entries. Its leader goes on until
// its own commit is done.
type committer struct {
	s       *Store
	flusher flusher // of the leader

	mu      sync.Mutex
	busy    bool // there is a leader
	waiting []*commit
}

const maxCommits = 256 // share a round

// run returns when c is done.
func (k *committer) run(c *commit) error {
	k.mu.Lock()
	k.waiting = append(k.waiting, c)
	if k.busy {
		c.turn = make(chan bool, 1)
		k.mu.Unlock()
		if !<-c.turn {
			return c.err
		}
		k.mu.Lock()
	}
	k.busy = true
	for !c.done() {
		n := min(len(k.waiting), maxCommits)
		group := slices.Clone(k.waiting[:n])
		k.waiting = slices.Delete(k.waiting, 0, n)
		k.mu.Unlock()
		k.round(group)
		group = slices.DeleteFunc(group, func(one *commit) bool {
			done := one.done()
			if done && one != c {
				one.turn <- false
			}
			return done
		})
		k.mu.Lock()
		k.waiting = append(k.waiting, group...)
	}
	if k.busy = len(k.waiting) > 0; k.busy {
		k.waiting[0].turn <- true
	}
	k.mu.Unlock()
	return c.err
}

// done says whether no round takes the commit any further.
func (c *commit) done() bool { return c.err != nil || len(c.stages) == 0 }

// round takes each commit of a group a step further.
func (k *committer) round(group []*commit) {
	defer fail(group)
	k.flusher.expect(len(group))
	k.flushFiles(group)
	r := &round{dirs: map[string]*flush{}, since: k.s.durable.count()}
	if k.s.local() {
		for _, c := range group {
			c.step(k.s, r)
		}
	} else { // each call waits for the network
		var all sync.WaitGroup
		for _, c := range group {
			all.Go(func() { c.step(k.s, r) })
		}
		all.Wait()
	}
	k.flushDirs(r)
	stuck := true
	for _, c := range group {
		for _, f := range c.dirs {
			if err := f.failure(); err != nil && c.err == nil {
				c.err = k.s.writeFault("flush", c.all[0].Key, err)
			}
		}
		c.dirs = c.dirs[:0]
		stuck = stuck && !c.stuck.IsZero()
	}
	if stuck {
		time.Sleep(lockPoll)
	}
}

// fail ends the commits of a round that panics: others that wait are not to wait for ever.
func fail(group []*commit) {
	if p := recover(); p != nil {
		for _, c := range group {
			c.err = cmp.Or(c.err, fmt.Errorf("a commit panics: %v\n%s", p, debug.Stack()))
		}
	}
}

// step publishes, unless the files could not be flushed.
func (c *commit) step(s *Store, r *round) {
	if c.err != nil {
		return
	}
	err := c.publish(s, r)
	switch {
	case err != errLocked: //nolint:errorlint // itself
		c.err, c.stuck = err, time.Time{}
	case c.stuck.IsZero():
		c.stuck = time.Now()
	case time.Since(c.stuck) > lockPatience:
		c.err = &fault{"lock", c.stages[0][c.at].Key, storage.ErrUnavailable, errStuck}
	}
}

// flushFiles flushes the files that are new.
func (k *committer) flushFiles(group []*commit) {
	type file struct {
		flush
		c  *commit
		ch *change
	}
	var files []*file
	var all []*flush
	for _, c := range group {
		for i := range c.all {
			if ch := &c.all[i]; ch.fd >= 0 {
				f := &file{flush{fd: ch.fd}, c, ch}
				files, all = append(files, f), append(all, &f.flush)
			}
		}
	}
	k.flusher.flush(all)
	for _, f := range files {
		if err := f.ch.flushed(k.s, f.err); f.c.err == nil {
			f.c.err = err
		}
	}
}

// flushDirs flushes the directories of a round, and what is above those that got an
// entry and are not known to be durable, or not the same any more.
func (k *committer) flushDirs(r *round) {
	for len(r.now) > 0 {
		flushed := r.now
		r.now = nil
		k.flusher.flush(flushed)
		for _, f := range flushed {
			f.queued = false
			if f.gone = errors.Is(f.err, unix.ENOENT) && !k.s.vanished(); f.gone { // removed since
				f.err, f.above = nil, r.dir(dirOf(f.dir), false)
			} else if id, durable := k.s.durable.has(f.dir); f.put && f.dir != k.s.rootDir() && (!durable || id != f.id) {
				f.above = r.dir(dirOf(f.dir), true)
				f.above.look = true
			}
		}
	}
	k.s.durable.remember(r.dirs, r.since)
}

// round is what the commits of a group share.
type round struct {
	mu    sync.Mutex // while they publish
	dirs  map[string]*flush
	now   []*flush // those of dirs that wait for their flush
	since uint64   // see dirSet.count
}

// dir returns the flush of a directory, which got an entry if put is true. One that has
// failed is not flushed again: it would succeed.
func (r *round) dir(name string, put bool) *flush {
	f := r.dirs[name]
	again := f == nil || put && !f.put && f.err == nil
	if f == nil {
		f = &flush{dir: name}
		r.dirs[name] = f
	}
	f.put = f.put || put
	if again && !f.queued {
		f.queued = true
		r.now = append(r.now, f)
	}
	return f
}

// need returns the flush of the directory in which a file of that name was put or
// deleted. Above one that got it, what is not known to be durable is flushed at once.
func (r *round) need(s *Store, dir string, put bool) *flush {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !put {
		return r.dir(dir, false)
	}
	above := s.durable.above(dir)
	for i, name := range above {
		f := r.dir(name, true)
		// Others follow a parent to be known; most new directories get no second entry.
		f.look = f.look || i > 0 || len(above) == 1
	}
	return r.dirs[dir]
}
