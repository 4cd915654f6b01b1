package filesystem

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxRound bounds how many commits share a round.
const maxRound = 256

// committer is the one goroutine that publishes what has to be durable. What comes
// while it flushes makes up its next round, so the more commits there are, the
// fewer flushes each of them costs.
type committer struct {
	s       *Store
	in      chan *commit
	stopped chan struct{}
	flusher *flusher
}

func startCommitter(s *Store) *committer {
	k := &committer{s: s, in: make(chan *commit, maxRound), stopped: make(chan struct{}), flusher: newFlusher()}
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

// round publishes one stage of each commit and returns those that are not done.
func (k *committer) round(commits []*commit) (left []*commit) {
	k.flusher.expect(len(commits))
	k.flushFiles(commits)
	r := &round{s: k.s, dirs: map[string]error{}}
	moved := false
	for _, c := range commits {
		if c.err == nil && c.next < len(c.stages) {
			c.err = r.publish(c)
		}
		moved = moved || c.waiting.IsZero()
	}
	r.flush(k.flusher)
	left = commits[:0]
	for _, c := range commits {
		if c.waiting.IsZero() {
			c.next, c.at = c.next+1, 0
		}
		if c.err == nil && c.next < len(c.stages) {
			left = append(left, c)
		} else {
			close(c.done)
		}
	}
	clear(commits[len(left):])
	if !moved {
		time.Sleep(lockPoll)
	}
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
		if err := f.ch.flushed(k.s, all[i].err); err != nil && f.c.err == nil {
			f.c.err = err
		}
	}
}

// round is what the stages of one round have to flush.
type round struct {
	s     *Store
	dirs  map[string]error // nil: flushed, or to be flushed
	needs []need
}

// need is a change that holds only when all dirs are flushed.
type need struct {
	c    *commit
	ch   *change
	dirs []string
}

// publish makes the next stage of c visible, or what it can of it while another
// process changes the same key.
func (r *round) publish(c *commit) error {
	stage := c.stages[c.next]
	for ; c.at < len(stage); c.at++ {
		if err := c.expired(); err != nil {
			return err
		}
		ch := &stage[c.at]
		dirs, err := r.change(ch)
		if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return c.wait()
		}
		c.waiting = time.Time{}
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

// wait leaves the stage to the next round.
func (c *commit) wait() error {
	if c.waiting.IsZero() {
		c.waiting = time.Now()
	}
	if time.Since(c.waiting) < lockPatience {
		return nil
	}
	return stuck(c.stages[c.next][c.at].Key)
}

// change is EWOULDBLOCK while another process changes the key.
func (r *round) change(ch *change) (dirs []string, err error) {
	k, err := r.s.tryExclude(ch.Key)
	if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
		return nil, err
	}
	if err != nil {
		return nil, r.s.writeFault("lock", ch.Key, err)
	}
	defer k.release()
	return ch.publish(r.s)
}

// flush flushes each directory once, and fails the commits whose directories
// cannot be.
func (r *round) flush(f *flusher) {
	flushAll(r.dirs, f.run)
	for _, n := range r.needs {
		if err := r.failure(n); err != nil && n.c.err == nil {
			n.c.err = r.s.writeFault("flush", n.ch.Key, err)
		}
	}
}

// failure returns why the need was not met. A directory that is not there any
// more was removed after the change, which is fine unless all is gone.
func (r *round) failure(n need) error {
	gone := false
	for _, dir := range n.dirs {
		err := r.dirs[dir]
		if err == unix.ENOENT && !r.s.vanished() { //nolint:errorlint // a bare errno
			gone = true
		} else if err != nil {
			return err
		}
	}
	if n.ch.isPut() && !gone {
		r.s.durable.remember(n.dirs)
	}
	return nil
}
