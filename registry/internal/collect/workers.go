package collect

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Most of a run is waiting for the storage, above all for it to free what is
// deleted. So where nobody is in the way several workers share the work: each
// another repository, manifest, or prefix of blobs. Between the steps of a run all
// wait for each other.

// workers is how many there are where nobody serves the storage, or it is behind a
// network. It is bounded because each that waits for a file system is a thread.
const workers = 16

// group does tasks, which may bring new ones. The first error ends ctx, and Wait
// returns it.
type group struct {
	*errgroup.Group
	ctx context.Context //nolint:containedctx // the tasks' own
	r   *run
}

// group returns one that shares the workers of the run with all others.
func (r *run) group(ctx context.Context) *group {
	g, ctx := errgroup.WithContext(ctx)
	return &group{g, ctx, r}
}

// do gives the task to a free worker, or does it here if there is none: so whoever
// waits never waits for a worker.
func (g *group) do(task func(ctx context.Context) error) {
	if g.r.alone.Load() || g.r.Remote { // else others need the machine
		select {
		case g.r.busy <- struct{}{}:
			g.Go(func() error {
				defer func() { <-g.r.busy }()
				return g.try(task)
			})
			return
		default:
		}
	}
	g.here(task)
}

// here does the task here: what is left for whoever would only wait for the others, and keep
// a worker's place.
func (g *group) here(task func(ctx context.Context) error) {
	if err := g.try(task); err != nil {
		g.Go(func() error { return err })
	}
}

func (g *group) try(task func(ctx context.Context) error) error {
	if g.ctx.Err() != nil {
		return context.Cause(g.ctx)
	}
	return task(g.ctx)
}

// each does f for all of them.
func each[T any](ctx context.Context, r *run, all []T, f func(ctx context.Context, one T) error) error {
	g := r.group(ctx)
	for i, one := range all {
		start := g.do
		if i == len(all)-1 {
			start = g.here
		}
		start(func(ctx context.Context) error { return f(ctx, one) })
	}
	return g.Wait()
}
