package filesystem

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway/registry/internal/storage"
)

// commit is one call of Apply.
type commit struct {
	s       *Store
	attempt *storage.Attempt
	own     bool // the attempt is the commit's own, and may be replaced
	stages  [][]change
}

// maxRestarts is how often a commit begins another attempt of its own. Each collection
// costs it one.
const maxRestarts = 4

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &commit{s: s, attempt: a, own: a == nil, stages: make([][]change, len(stages))}
	for i, stage := range stages {
		c.stages[i] = make([]change, len(stage))
		for j := range stage {
			c.stages[i][j] = change{Change: stage[j], fd: -1}
		}
	}
	defer c.cleanUp()
	return c.run()
}

func (c *commit) run() error {
	for _, stage := range c.stages {
		for i := range stage {
			if err := stage[i].prepare(c.s); err != nil {
				return err
			}
		}
	}
	for i := range c.stages {
		err := c.stage(i)
		for try := 0; c.own && errors.Is(err, storage.ErrExpired) && try < maxRestarts; try++ {
			if err = c.restart(i); err == nil {
				err = c.stage(i)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stage makes the changes of stage i that aren't made yet, and makes all of them durable.
func (c *commit) stage(i int) error {
	if !c.own {
		if err := c.attempt.Err(); err != nil {
			return err
		}
	}
	if err := c.writeFiles(c.stages[i:]); err != nil {
		return err
	}
	failures := c.s.dirs.failures.Load()
	var dirs []string
	for j := range c.stages[i] {
		ch := &c.stages[i][j]
		if !ch.done {
			if err := ch.publish(c); err != nil {
				return err
			}
			ch.done = true
		}
		if ch.dir != "" && !slices.Contains(dirs, ch.dir) {
			dirs = append(dirs, ch.dir)
		}
	}
	if err := c.s.flushDirs(dirs); err != nil {
		return c.s.writeFault("flush", c.stages[i][0].Key, err)
	}
	// A failed flush of another commit may also have lost entries of this one.
	if len(dirs) > 0 && c.s.dirs.failures.Load() != failures {
		return &fault{"flush", c.stages[i][0].Key, storage.ErrUnavailable, errFlush}
	}
	return nil
}

var errFlush = errors.New("a directory could not be flushed")

// writeFiles writes the files of puts, and flushes them and the uploads. A large upload is
// flushed first, because that may take longer than an attempt.
func (c *commit) writeFiles(stages [][]change) error {
	if err := c.flushFiles(stages, window); err != nil {
		return err
	}
	for _, stage := range stages {
		for i := range stage {
			if ch := &stage[i]; ch.isPut() && ch.temp == "" && !ch.done {
				if err := ch.write(c); err != nil {
					return err
				}
			}
		}
	}
	return c.flushFiles(stages, 0)
}

// flushFiles flushes the open files of least bytes or more. All are on their way to the disk
// before the first is waited for, so a file system with a journal commits it once.
func (c *commit) flushFiles(stages [][]change, least int64) error {
	var files []*change
	for _, stage := range stages {
		for i := range stage {
			if stage[i].fd >= 0 && stage[i].size() >= least {
				files = append(files, &stage[i])
			}
		}
	}
	errs := make([]error, len(files))
	for i, f := range files {
		if len(files) > 1 {
			errs[i] = startWriteBack(f.fd, 0, 0, false)
		}
	}
	for i, f := range files {
		if errs[i] == nil {
			errs[i] = syncFile(f.fd)
		}
		errs[i] = f.flushed(c.s, errs[i])
	}
	return errors.Join(errs...)
}

// ensureAttempt returns the directory for new files. Files of a commit without an attempt are
// written in one that begins now.
func (c *commit) ensureAttempt() (*staging, error) {
	if c.attempt == nil {
		c.attempt = c.s.Begin()
	}
	d, ok := c.attempt.Token().(*staging)
	if !ok {
		return nil, errors.New("filesystem: the attempt is of another store")
	}
	return d, nil
}

// restart begins another attempt after a collection has ended the one before, and renews
// what the commit has put already.
func (c *commit) restart(upTo int) error {
	c.attempt = c.s.Begin()
	for i, stage := range c.stages {
		for j := range stage {
			ch := &stage[j]
			if !ch.done && ch.upload == nil {
				ch.closeFile()
				ch.temp = ""
			}
			if i > upTo || !ch.done || !ch.isPut() || ch.Ephemeral {
				continue
			}
			if err := ch.renew(c); errors.Is(err, storage.ErrNotExist) {
				return fmt.Errorf("%w: %s was collected meanwhile", storage.ErrExpired, ch.Key)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *commit) cleanUp() {
	for _, stage := range c.stages {
		for i := range stage {
			stage[i].cleanUp(c.s)
		}
	}
}
