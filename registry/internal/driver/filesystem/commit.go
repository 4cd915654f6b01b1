package filesystem

import (
	"context"

	"slipway/registry/internal/driver"
)

// commit is one call of Commit. It belongs to its caller, and to the committer
// from submit until done is closed.
type commit struct {
	stages [][]change
	next   int // the stage to be published
	err    error
	done   chan struct{}
}

// Commit implements driver.Driver.
func (d *Driver) Commit(ctx context.Context, stages ...driver.Stage) error {
	c := &commit{stages: make([][]change, len(stages)), done: make(chan struct{})}
	defer c.each(func(ch *change) error { ch.cleanUp(); return nil }) //nolint:errcheck // always nil
	for i, stage := range stages {
		c.stages[i] = make([]change, len(stage))
		for j := range stage {
			c.stages[i][j] = newChange(&stage[j])
		}
		pair(c.stages[i])
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.each(func(ch *change) error { return ch.check(d) }); err != nil {
		return err
	}
	if err := c.each(func(ch *change) error { return ch.write(d) }); err != nil {
		return err
	}
	return d.committer.submit(c)
}

// Remove implements driver.Driver.
func (d *Driver) Remove(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch := change{path: path, do: removeObject, fd: -1}
	if err := ch.check(d); err != nil {
		return err
	}
	return d.committer.submit(&commit{stages: [][]change{{ch}}, done: make(chan struct{})})
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
