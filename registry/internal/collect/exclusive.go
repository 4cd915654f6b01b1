package collect

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// While nobody serves the storage a run is exclusive: nobody relies on anything and
// nobody can begin to, so the first look is right and what nothing needs is deleted at
// once, by several workers. As soon as a server waits, the run lets it in and begins
// again, as any run beside servers.

// errServed ends what is exclusive, or says that nothing can be.
var errServed = errors.New("a registry serves the storage, or waits to")

// askEvery is how many objects are looked at between two looks for who waits.
const askEvery = 64

// collectAlone collects while nobody serves; errServed if somebody does, or has come.
func (r *run) collectAlone(ctx context.Context) error {
	lease, err := r.Coordinator.Exclusive(ctx)
	if errors.Is(err, storage.ErrBusy) {
		return errServed
	}
	if err != nil {
		return err
	}
	defer lease.Release()
	r.exclusive, r.fence = lease, append(r.fence, lease)
	err = r.collect(ctx)
	if errors.Is(err, errServed) {
		r.beginAgain()
		r.Log.Info("garbage collection begins again beside a registry that has started", zap.String("run", r.name))
	}
	return err
}

// beginAgain forgets all but what is deleted.
func (r *run) beginAgain() {
	r.digests, r.exclusive, r.again, r.fence = newDigests(), nil, true, r.fence[:1]
	r.report = r.report.deleted()
}

// wanted is errServed if the run is exclusive and somebody waits.
func (r *run) wanted() error {
	if r.exclusive != nil && r.exclusive.Wanted() {
		return errServed
	}
	return nil
}

// step is called for each object. It looks for who waits to serve, and rests if that is
// due.
func (r *run) step(ctx context.Context) error {
	if r.steps.Add(1)%askEvery == 0 {
		if err := r.wanted(); err != nil {
			return err
		}
	}
	return r.pace.step(ctx)
}
