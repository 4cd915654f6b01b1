package filesystem

import (
	"context"
	"time"

	"slipway/registry/internal/storage"
)

// commit is one call of Apply. It belongs to its caller, and to the committer
// from submit until done is closed.
type commit struct {
	section storage.Section // or nil
	stages  [][]change
	next    int       // the stage to be published
	at      int       // the change of it to be published
	waiting time.Time // since when another process keeps that change from it, or zero
	err     error
	done    chan struct{}
}

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	c := newCommit(section, stages)
	defer c.each(func(ch *change) error { ch.cleanUp(); return nil }) //nolint:errcheck // always nil
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.each(func(ch *change) error { return ch.prepare(s) }); err != nil {
		return err
	}
	if err := c.expired(); err != nil {
		return err
	}
	if err := c.each(func(ch *change) error { return ch.write(s) }); err != nil {
		return err
	}
	if c.light() {
		return s.applyHere(c)
	}
	c.done = make(chan struct{})
	return s.committer.submit(c)
}

func newCommit(section storage.Section, stages []storage.Stage) *commit {
	c := &commit{section: section, stages: make([][]change, len(stages))}
	for i, stage := range stages {
		c.stages[i] = make([]change, len(stage))
		for j := range stage {
			c.stages[i][j] = change{Change: stage[j], fd: -1}
		}
		pair(c.stages[i])
	}
	return c
}

// each calls f for the changes of all stages, up to the first error.
func (c *commit) each(f func(*change) error) error {
	for _, stage := range c.stages {
		for i := range stage {
			if err := f(&stage[i]); err != nil {
				return err
			}
		}
	}
	return nil
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

// light says whether it puts nothing that has to be durable.
func (c *commit) light() bool {
	for _, stage := range c.stages {
		for i := range stage {
			if stage[i].isPut() && !stage[i].Ephemeral {
				return false
			}
		}
	}
	return true
}

// applyHere makes the changes of a commit that is light.
func (s *Store) applyHere(c *commit) error {
	for _, stage := range c.stages {
		if err := c.expired(); err != nil {
			return err
		}
		var dirs []string
		for i := range stage {
			changed, err := s.changeHere(&stage[i])
			if err != nil {
				return err
			}
			dirs = append(dirs, changed...)
		}
		if err := s.flushDirs(dirs); err != nil {
			return s.writeFault("flush", stage[0].Key, err)
		}
	}
	return nil
}

func (s *Store) changeHere(ch *change) (dirs []string, err error) {
	k, err := s.exclude(ch.Key)
	if err != nil {
		return nil, s.writeFault("lock", ch.Key, err)
	}
	defer k.release()
	return ch.publish(s)
}

// flushDirs flushes each directory once. One that is gone was removed after the
// change, by who flushes the one above.
func (s *Store) flushDirs(dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	set := make(map[string]error, len(dirs))
	for _, dir := range dirs {
		set[dir] = nil
	}
	flushAll(set, s.dirs.run)
	for _, err := range set {
		if err != nil && (!isNotExist(err) || s.vanished()) {
			return err
		}
	}
	return nil
}

// file is a change whose file has to be flushed.
type file struct {
	c  *commit
	ch *change
}

// unflushed adds the files that have to be flushed.
func (c *commit) unflushed(files []file) []file {
	for _, stage := range c.stages {
		for i := range stage {
			if stage[i].fd >= 0 {
				files = append(files, file{c, &stage[i]})
			}
		}
	}
	return files
}
