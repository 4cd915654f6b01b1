package filesystem

import (
	"context"
	"time"

	"slipway/registry/internal/storage"
)

// commit is one call of Apply. It belongs to its caller until that gives it to the
// committer, and again when that is done with it.
type commit struct {
	section storage.Section // or nil
	all     []change
	stages  [][]change // of all, those that are not published yet
	at      int        // in the first of them, the change that comes next
	light   bool       // no change needs a flush or a lock

	turn  chan bool // true: lead the next round; false: it is done
	stuck time.Time // since when another process has the lock that it needs; or zero
	dirs  []*flush  // of this round
	err   error
}

// bigFile is the size from which on small files do not wait for its flush.
const bigFile = 1 << 20

// maxStep is how many changes of a commit are made in one round: one that deletes much
// does not keep others waiting for all of it.
const maxStep = 64

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	s.using.RLock()
	defer s.using.RUnlock()
	c := newCommit(section, stages)
	defer c.cleanUp()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range c.all {
		if err := c.all[i].prepare(s); err != nil {
			return err
		}
	}
	if err := c.expired(); err != nil {
		return err
	}
	for i := range c.all {
		if err := c.all[i].write(s); err != nil {
			return err
		}
	}
	for c.light && len(c.stages) > 0 {
		if err := c.publish(s, nil); err != nil {
			return err
		}
	}
	if len(c.stages) == 0 {
		return nil
	}
	return s.committer(c).run(c)
}

// committer returns the one for a commit: small ones do not wait for what takes long.
func (s *Store) committer(c *commit) *committer {
	for i := range c.all {
		switch ch := &c.all[i]; {
		case max(ch.size, int64(len(ch.Content))) >= bigFile:
			return &s.big
		case ch.Delete:
			return &s.deleting
		}
	}
	return &s.small
}

func newCommit(section storage.Section, stages []storage.Stage) *commit {
	n := 0
	for _, stage := range stages {
		n += len(stage)
	}
	c := &commit{section: section, all: make([]change, 0, n), stages: make([][]change, len(stages)), light: true}
	for i, stage := range stages {
		begin := len(c.all)
		for j := range stage {
			c.all = append(c.all, change{Change: stage[j], fd: -1})
			c.light = c.light && (stage[j].Ephemeral || stage[j].Renew) && stage[j].Upload == nil && stage[j].If == storage.Condition{}
		}
		c.stages[i] = c.all[begin:]
	}
	return c
}

func (c *commit) cleanUp() {
	for i := range c.all {
		c.all[i].cleanUp()
	}
}

// expired fails once the section has ended or passed its deadline.
func (c *commit) expired() error {
	if c.section == nil {
		return nil
	}
	own, ok := c.section.(*section)
	deadline := c.section.Deadline()
	if ok && own.ended.Load() || !deadline.IsZero() && time.Now().After(deadline) {
		return storage.ErrExpired
	}
	return nil
}

// publish makes changes of the next stage visible, no more than maxStep, and asks the
// round for the flushes that they need. It stops early at a change that has got a file
// which is not flushed, and fails with errLocked at one that another process excludes.
func (c *commit) publish(s *Store, r *round) error {
	if err := c.expired(); err != nil {
		return err
	}
	stage := c.stages[0]
	var lock keyLock
	defer lock.release()
	for range maxStep {
		if c.at == len(stage) {
			break
		}
		ch := &stage[c.at]
		if err := ch.publish(s, stage[:c.at], &lock); err != nil {
			return err
		}
		if ch.fd >= 0 {
			c.light = false
			return nil
		}
		if ch.dir != "" {
			c.dirs = append(c.dirs, r.need(s, ch.dir, ch.isPut()))
		}
		if ch.source != "" { // known from now on
			r.need(s, dirOf(ch.source), true)
		}
		c.at++
	}
	if c.at == len(stage) {
		c.stages, c.at = c.stages[1:], 0
	}
	return nil
}
