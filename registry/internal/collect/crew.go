package collect

import (
	"context"
	"sync"
)

// Most of a run is waiting for the file system, above all for it to free what is
// removed. So where nobody is in the way several hands work, each on another
// repository, link or directory of blobs. Between the steps of a run all wait
// for each other: what a step may rely on is the same for many hands as for one.

// hands is how many there are where nobody serves the storage. It is bounded
// because each that waits for the file system is a thread.
const hands = 16

// crew does tasks, which may bring new ones. The first error ends ctx.
type crew struct {
	ctx    context.Context //nolint:containedctx // the tasks' own
	cancel context.CancelCauseFunc
	free   chan struct{} // a place for each hand but the first
	wg     sync.WaitGroup
}

// crew returns one that shares the hands of the run with all others.
func (r *run) crew(ctx context.Context) *crew {
	c := &crew{free: r.hands}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// do has a free hand do the task, or does it if there is none: so whoever waits
// never waits for a hand.
func (c *crew) do(task func(ctx context.Context) error) {
	select {
	case c.free <- struct{}{}:
		c.wg.Go(func() {
			defer func() { <-c.free }()
			c.try(task)
		})
	default:
		c.try(task)
	}
}

func (c *crew) try(task func(ctx context.Context) error) {
	err := context.Cause(c.ctx)
	if err == nil {
		err = task(c.ctx)
	}
	if err != nil {
		c.cancel(err)
	}
}

// wait waits for all tasks and returns the first error.
func (c *crew) wait() error {
	c.wg.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	return err
}
