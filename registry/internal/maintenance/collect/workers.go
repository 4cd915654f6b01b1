package collect

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// group runs tasks. The first error ends ctx, and Wait returns it.
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

// do gives the task to a free worker, or does it here if there is none, so that the caller
// never waits for a worker. Beside a server on files there is none: others need the
// machine.
func (g *group) do(task func(ctx context.Context) error) {
	if g.r.offline || g.r.Remote {
		select {
		case g.r.workers <- struct{}{}:
			g.Go(func() error {
				defer func() { <-g.r.workers }()
				return g.try(task)
			})
			return
		default:
		}
	}
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
