package collect

import (
	"context"
	"sync"
)

// Most of a run is waiting for the storage, above all for it to free what is
// deleted. So where nobody is in the way several workers share the work: each
// another repository, manifest, or prefix of blobs. Between the steps of a run all
// wait for each other.

// workers is how many there are where nobody serves the storage. It is bounded
// because each that waits for a file system is a thread.
const workers = 16

// group does tasks, which may bring new ones. The first error ends ctx.
type group struct {
	ctx    context.Context //nolint:containedctx // the tasks' own
	cancel context.CancelCauseFunc
	free   chan struct{} // a place for each worker but the first
	wg     sync.WaitGroup
}

// setWorkers decides how many share the work: one, where others need the machine and the
// storage is not behind a network.
func (r *run) setWorkers() {
	r.free = nil
	if r.exclusive != nil || r.Remote {
		r.free = make(chan struct{}, workers-1)
	}
}

// group returns one that shares the workers of the run with all others.
func (r *run) group(ctx context.Context) *group {
	g := &group{free: r.free}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// do gives the task to a free worker, or does it here if there is none: so whoever
// waits never waits for a worker.
func (g *group) do(task func(ctx context.Context) error) {
	select {
	case g.free <- struct{}{}:
		g.wg.Go(func() {
			defer func() { <-g.free }()
			g.try(task)
		})
	default:
		g.try(task)
	}
}

func (g *group) try(task func(ctx context.Context) error) {
	err := context.Cause(g.ctx)
	if err == nil {
		err = task(g.ctx)
	}
	if err != nil {
		g.cancel(err)
	}
}

// wait waits for all tasks and returns the first error.
func (g *group) wait() error {
	g.wg.Wait()
	err := context.Cause(g.ctx)
	g.cancel(nil)
	return err
}
