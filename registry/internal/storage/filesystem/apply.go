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
	all     []change
	stages  [][]change // of all
}

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
		if err := s.flushStage(stage); err != nil {
			return err
		}
	}
	return nil
}

func newCommit(section storage.Section, stages []storage.Stage) *commit {
	n := 0
	for _, stage := range stages {
		n += len(stage)
	}
	c := &commit{section: section, all: make([]change, 0, n), stages: make([][]change, len(stages))}
	for i, stage := range stages {
		begin := len(c.all)
		for j := range stage {
			c.all = append(c.all, change{Change: stage[j], fd: -1})
		}
		c.stages[i] = c.all[begin:]
		pair(c.stages[i])
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

// flushFiles flushes the new files of all stages; the big ones with others of
// their kind, for which the rest shall not wait.
func (c *commit) flushFiles(s *Store) (err error) {
	flushes := make([]flush, len(c.all))
	var small, big []*flush
	for i := range c.all {
		switch ch := &c.all[i]; {
		case ch.fd < 0:
			continue
		case ch.size < bigFile:
			small = append(small, &flushes[i])
		default:
			big = append(big, &flushes[i])
		}
		flushes[i].fd = c.all[i].fd
	}
	s.big.run(big)
	s.flusher.run(small)
	for i := range c.all {
		if ch := &c.all[i]; ch.fd >= 0 {
			if failed := ch.flushed(s, flushes[i].err); err == nil {
				err = failed
			}
		}
	}
	return err
}

// publish makes the changes of a stage visible. It excludes others where that
// matters: not for a renewal, which changes no content.
func (s *Store) publish(stage []change) (err error) {
	var k *keyLock
	defer func() { k.release() }()
	for i := range stage {
		if err := stage[i].makeDir(s); err != nil {
			return err
		}
	}
	for i := range stage {
		ch := &stage[i]
		if excludes := !ch.Renew && !ch.Ephemeral; excludes || ch.If != (storage.Condition{}) {
			if k, err = s.exclude(ch.Key, k); err != nil {
				return s.writeFault("lock", ch.Key, err)
			}
		}
		err = ch.publish(s)
		if ch.Renew && isDenied(err) && ch.Content != nil { // only its owner may set its times
			if k, err = s.exclude(ch.Key, k); err != nil {
				return s.writeFault("lock", ch.Key, err)
			}
			err = ch.rewrite(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxDirs is how many directories are flushed together: a stage that deletes much
// does not keep others waiting for all of it.
const maxDirs = 64

// flushStage flushes what the changes need to be durable.
func (s *Store) flushStage(stage []change) error {
	var puts, deletions []string
	for i := range stage {
		if ch := &stage[i]; ch.isPut() {
			puts = append(puts, ch.dirs...)
		} else {
			deletions = append(deletions, ch.dirs...)
		}
	}
	if len(puts)+len(deletions) == 0 {
		return nil
	}
	return s.flushDirs(stage[0].Key, puts, deletions)
}

// flushDirs flushes directories that have got entries, with all above them that are
// not known to be durable, and directories that have lost some. One that is not there
// any more was removed since: then the one that lost it is flushed. key is for errors.
func (s *Store) flushDirs(key string, puts, deletions []string) error {
	since := s.durable.count()
	known := map[string]*flush{}
	var now, done []*flush
	need := func(dir string, put bool) *flush {
		f := known[dir]
		if f == nil || put && !f.put {
			if f == nil {
				f = &flush{dir: dir}
				known[dir] = f
			}
			now = append(now, f)
		}
		f.put = f.put || put
		return f
	}
	for _, dir := range puts {
		_, durable := s.durable.has(dir)
		need(dir, true).look = durable
	}
	for _, dir := range puts { // others follow a parent to be known, most new directories get no second entry
		if p := known[dirOf(dir)]; p != nil {
			p.look = true
		}
	}
	for _, dir := range deletions {
		need(dir, false)
	}
	gone := false
	for len(now) > 0 {
		for some := range slices.Chunk(now, maxDirs) {
			s.flusher.run(some)
		}
		flushed := now
		now = nil
		for _, f := range flushed {
			switch {
			case f.err == nil && f.put:
				done = append(done, f)
				if id, durable := s.durable.has(f.dir); f.dir != s.rootDir() && (!durable || id != f.id) {
					need(dirOf(f.dir), true).look = true
				}
			case f.err == nil:
			case f.err != unix.ENOENT, s.vanished(): //nolint:errorlint // a bare errno
				return s.writeFault("flush", key, f.err)
			default:
				gone = true
				need(dirOf(f.dir), false)
			}
		}
	}
	if !gone {
		s.durable.remember(done, since)
	}
	return nil
}
