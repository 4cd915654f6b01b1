package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"
)

// maxRound bounds how many commits share a round.
const maxRound = 256

// committer is the one goroutine that publishes. What comes while it flushes
// makes up its next round, so the more commits there are, the fewer flushes
// each of them costs. Its rounds follow one another: what a commit made visible
// is flushed before a later one is answered.
type committer struct {
	d       *Driver
	in      chan *commit
	stopped chan struct{}
	flusher *flusher
}

func startCommitter(d *Driver) *committer {
	k := &committer{d: d, in: make(chan *commit, maxRound), stopped: make(chan struct{}), flusher: newFlusher()}
	go k.loop()
	return k
}

// stop ends the goroutine when it has done all that was submitted.
func (k *committer) stop() {
	close(k.in)
	<-k.stopped
	k.flusher.stop()
}

// submit returns when c is done.
func (k *committer) submit(c *commit) error {
	k.in <- c
	<-c.done
	return c.err
}

func (k *committer) loop() {
	defer close(k.stopped)
	var commits []*commit
	for {
		commits = k.gather(commits)
		if len(commits) == 0 {
			return
		}
		commits = k.round(commits)
	}
}

// gather adds those that wait to those that have stages left. It waits only if
// there is nothing to do; it returns nothing only after stop.
func (k *committer) gather(commits []*commit) []*commit {
	if len(commits) == 0 {
		if c, ok := <-k.in; ok {
			commits = append(commits, c)
		}
	}
	for len(commits) < maxRound {
		select {
		case c, ok := <-k.in:
			if !ok {
				return commits
			}
			commits = append(commits, c)
		default:
			return commits
		}
	}
	return commits
}

// round publishes one stage of each commit and returns those that have another.
func (k *committer) round(commits []*commit) (left []*commit) {
	k.flusher.expect(len(commits))
	k.flushFiles(commits)
	r := newRound(k)
	for _, c := range commits {
		if c.err == nil && c.next < len(c.stages) {
			c.err = r.publish(c)
		}
	}
	r.flush()
	left = commits[:0]
	for _, c := range commits {
		if c.next++; c.err == nil && c.next < len(c.stages) {
			left = append(left, c)
		} else {
			close(c.done)
		}
	}
	clear(commits[len(left):])
	return left
}

// flushFiles flushes the new files of those that are new in this round.
func (k *committer) flushFiles(commits []*commit) {
	var files []file
	for _, c := range commits {
		if c.next == 0 {
			files = c.unflushed(files)
		}
	}
	all := make([]flush, len(files))
	for i, f := range files {
		all[i].fd = f.ch.fd
	}
	k.flusher.run(all)
	for i, f := range files {
		if err := f.ch.flushed(k.d, all[i].err); err != nil && f.c.err == nil {
			f.c.err = err
		}
	}
}

// round is what the stages of one round have to flush.
type round struct {
	d       *Driver
	flusher *flusher
	dirs    map[string]error // nil: flushed, or to be flushed
	needs   []need
}

// need is a change that holds only when all dirs are flushed.
type need struct {
	c    *commit
	ch   *change
	dirs []string
}

func newRound(k *committer) *round {
	return &round{d: k.d, flusher: k.flusher, dirs: map[string]error{}}
}

// publish makes the next stage of c visible.
func (r *round) publish(c *commit) error {
	for i := range c.stages[c.next] {
		ch := &c.stages[c.next][i]
		dirs, err := ch.publish(r.d)
		if err != nil {
			return err
		}
		r.needs = append(r.needs, need{c, ch, dirs})
		for _, dir := range dirs {
			r.dirs[dir] = nil
		}
	}
	return nil
}

// flush flushes each directory once, and fails the commits whose directories
// cannot be.
func (r *round) flush() {
	r.flushDirs()
	for _, n := range r.needs {
		if err := r.failure(n); err != nil && n.c.err == nil {
			n.c.err = r.d.writeFault("flush", n.ch.path, err)
		}
	}
}

func (r *round) flushDirs() {
	names, open := make([]string, 0, len(r.dirs)), make([]flush, 0, len(r.dirs))
	for dir := range r.dirs {
		fd, err := openDir(dir)
		if err != nil {
			r.dirs[dir] = err
			continue
		}
		names, open = append(names, dir), append(open, flush{fd: fd, dir: true})
	}
	r.flusher.run(open)
	for i, f := range open {
		closeFD(f.fd)
		if !unsupported(f.err) {
			r.dirs[names[i]] = f.err
		}
	}
}

// failure returns why the need was not met. A directory that is not there any
// more was removed after the change, which is fine unless all is gone.
func (r *round) failure(n need) error {
	gone := false
	for _, dir := range n.dirs {
		err := r.dirs[dir]
		if errors.Is(err, unix.ENOENT) && !r.d.vanished() {
			gone = true
		} else if err != nil {
			return err
		}
	}
	if n.ch.do == put && !gone {
		r.d.durable.remember(n.dirs)
	}
	return nil
}
