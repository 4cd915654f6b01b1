package filesystem

import "sync"

// flush is one file, or one directory, to be flushed.
type flush struct {
	fd   int
	dir  string // its path, to be opened; or ""
	put  bool   // it got an entry: what is above it is flushed as well
	look bool   // id is asked for
	id   dirID  // of the directory that was flushed
	same *flush // another one of the same directory, whose result is this one's; or nil
	err  error
}

// now flushes it in this thread.
func (f *flush) now() error {
	if f.dir == "" {
		return syncFile(f.fd)
	}
	return flushDir(f.fd)
}

// flusher shares flushes. Who comes while nobody flushes does so at once, in its
// own thread. All who come meanwhile wait, and then one of them flushes for all:
// so the more there are, the fewer flushes each of them costs.
type flusher struct {
	mu      sync.Mutex
	busy    bool
	waiting []*caller

	// Of the one who flushes:
	asked bool // the kernel, for aio: not before there is a crowd, because giving it back takes tens of milliseconds
	aio   *aio // nil where the kernel has none
	crowd int  // runs for which more than one caller at a time is expected
}

// caller is somebody who waits.
type caller struct {
	all  []*flush
	turn chan bool // true: flush for all who wait; false: it is done
}

const (
	maxCallers = 256 // share a run
	crowdLasts = 16  // for so many runs after one that was shared, others may be
)

// stop needs that nobody flushes any more.
func (f *flusher) stop() { f.aio.stop() }

// run returns when all are flushed; each has its own error.
func (f *flusher) run(all []*flush) {
	if len(all) == 0 {
		return
	}
	me := &caller{all: all}
	f.mu.Lock()
	if f.busy {
		me.turn = make(chan bool, 1)
		f.waiting = append(f.waiting, me)
		f.mu.Unlock()
		if !<-me.turn {
			return
		}
		f.mu.Lock()
	}
	f.busy = true
	n := min(len(f.waiting), maxCallers)
	others := f.waiting[:n:n]
	f.waiting = f.waiting[n:]
	f.mu.Unlock()

	f.together(me, others)

	f.mu.Lock()
	if f.busy = len(f.waiting) > 0; f.busy {
		f.waiting[0].turn <- true
		f.waiting = f.waiting[1:]
	}
	f.mu.Unlock()
	for _, c := range others {
		c.turn <- false
	}
}

// together flushes for several callers, each directory once.
func (f *flusher) together(me *caller, others []*caller) {
	f.expect(len(others) + 1)
	if len(others) == 0 {
		f.flush(me.all)
		return
	}
	var all []*flush
	dirs := map[string]*flush{}
	for _, c := range append(others, me) {
		for _, one := range c.all {
			if one.same = dirs[one.dir]; one.same != nil {
				one.same.look = one.same.look || one.look
				continue
			}
			all = append(all, one)
			if one.dir != "" {
				dirs[one.dir] = one
			}
		}
	}
	f.flush(all)
	for _, c := range append(others, me) {
		for _, one := range c.all {
			if one.same != nil {
				one.err, one.id = one.same.err, one.same.id
			}
		}
	}
}

// expect notes how many callers share this run.
func (f *flusher) expect(callers int) {
	if callers > 1 {
		f.crowd = crowdLasts
		if !f.asked {
			f.asked, f.aio = true, startAIO()
		}
	} else if f.crowd > 0 {
		f.crowd--
	}
}

// flush opens the directories and flushes all.
func (f *flusher) flush(all []*flush) {
	open := make([]*flush, 0, len(all))
	for _, one := range all {
		if one.dir != "" {
			if one.fd, one.err = openDir(one.dir); one.err == nil && one.look {
				one.id = identify(one.fd)
			}
		}
		if one.err == nil {
			open = append(open, one)
		}
	}
	f.flushOpen(open)
	for _, one := range open {
		if one.dir == "" {
			continue
		}
		closeFD(one.fd)
		if unsupported(one.err) {
			one.err = nil
		}
	}
}

// flushOpen hands them to the kernel together where several callers come at a
// time, if it can take them.
func (f *flusher) flushOpen(all []*flush) {
	if f.crowd > 0 && f.aio != nil && len(all) > 1 {
		f.aio.flush(all)
		return
	}
	for _, one := range all {
		if one.dir == "" && len(all) > 1 {
			one.err = startWriteBack(one.fd, 0, 0, false)
		}
	}
	for _, one := range all {
		if one.err == nil {
			one.err = one.now()
		}
	}
}
