package filesystem

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// commit is one call of Apply.
type commit struct {
	section storage.Section // or nil
	stages  [][]change
}

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	s.using.RLock()
	defer s.using.RUnlock()
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
	if err := c.flushFiles(s); err != nil {
		return err
	}
	for _, stage := range c.stages {
		if err := c.expired(); err != nil {
			return err
		}
		if err := s.publish(stage); err != nil {
			return err
		}
		if err := s.flushDirs(stage); err != nil {
			return err
		}
	}
	return nil
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

// flushFiles flushes the new files of all stages; the big ones with others of
// their kind, for which the rest shall not wait.
func (c *commit) flushFiles(s *Store) error {
	var small, big []*change
	_ = c.each(func(ch *change) error {
		switch {
		case ch.fd < 0:
		case ch.size < bigFile:
			small = append(small, ch)
		default:
			big = append(big, ch)
		}
		return nil
	})
	err := s.big.files(s, big)
	if failed := s.flusher.files(s, small); err == nil {
		err = failed
	}
	return err
}

// files flushes the files of changes.
func (f *flusher) files(s *Store, changes []*change) (err error) {
	all := make([]*flush, len(changes))
	for i, ch := range changes {
		all[i] = &flush{fd: ch.fd}
	}
	f.run(all)
	for i, ch := range changes {
		if failed := ch.flushed(s, all[i].err); err == nil {
			err = failed
		}
	}
	return err
}

// publish makes the changes visible.
func (s *Store) publish(stage []change) error {
	for i := range stage {
		if err := s.publishOne(&stage[i]); err != nil {
			return err
		}
	}
	return nil
}

// publishOne excludes others, where that matters: not for a renewal, which changes
// no content.
func (s *Store) publishOne(ch *change) error {
	switch {
	case ch.Renew:
		return ch.renew(s)
	case ch.Ephemeral && ch.If == storage.Condition{}:
		return ch.publish(s)
	}
	k, err := s.exclude(ch.Key)
	if err != nil {
		return s.writeFault("lock", ch.Key, err)
	}
	defer k.release()
	return ch.publish(s)
}

// maxDirs is how many directories are flushed together: a stage that deletes much
// does not keep others waiting for all of it.
const maxDirs = 64

// flushDirs flushes what the changes need to be durable. A directory that is not
// there any more was removed since: then the one that lost it is flushed.
func (s *Store) flushDirs(stage []change) error {
	var all []*flush
	known := map[string]*flush{}
	need := func(dir string) {
		if known[dir] == nil {
			known[dir] = &flush{dir: dir}
			all = append(all, known[dir])
		}
	}
	for i := range stage {
		for _, dir := range stage[i].dirs {
			need(dir.name)
		}
	}
	for len(all) > 0 {
		now := all
		all = nil
		for some := range slices.Chunk(now, maxDirs) {
			s.flusher.run(some)
		}
		for _, f := range now {
			switch {
			case f.err == nil:
			case f.err != unix.ENOENT, s.vanished(): //nolint:errorlint // a bare errno
				return s.writeFault("flush", stage[0].Key, f.err)
			default:
				need(dirOf(f.dir))
			}
		}
	}
	gone := func(d dirEntry) bool { return known[d.name].err != nil }
	for i := range stage {
		if ch := &stage[i]; ch.isPut() && !slices.ContainsFunc(ch.dirs, gone) {
			s.durable.remember(ch.dirs)
		}
	}
	return nil
}
