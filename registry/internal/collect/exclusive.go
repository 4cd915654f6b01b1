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

// errWanted ends what is exclusive.
var errWanted = errors.New("a registry waits to serve the storage")

// askEvery is how many objects are looked at between two looks for who waits.
const askEvery = 64

// collectAlone collects while nobody serves. It is not done if somebody does, or has come.
func (r *run) collectAlone(ctx context.Context, lock storage.Lease) (done bool, err error) {
	lease, err := r.Coordinator.Exclusive(ctx)
	if errors.Is(err, storage.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lease.Release()
	r.exclusive, r.free = lease, make(chan struct{}, workers-1)
	r.fence = fenceOf(lock, lease)
	r.setLimit()
	err = r.collect(ctx)
	if !errors.Is(err, errWanted) {
		return true, err
	}
	r.beginAgain()
	r.fence = fenceOf(lock)
	r.Log.Info("garbage collection begins again beside a registry that has started", zap.String("run", r.name))
	return false, nil
}

// beginAgain forgets all but what is deleted.
func (r *run) beginAgain() {
	r.digests, r.exclusive, r.again = newDigests(), nil, true
	r.report = r.report.deleted()
}

// wanted is errWanted if the run is exclusive and somebody waits.
func (r *run) wanted() error {
	if r.exclusive != nil && r.exclusive.Wanted() {
		return errWanted
	}
	return nil
}

// step is called for each object. It looks for who waits to serve, and rests if that is
// due.
func (r *run) step(ctx context.Context) error {
	if r.exclusive != nil && r.steps.Add(1)%askEvery == 0 {
		if err := r.wanted(); err != nil {
			return err
		}
	}
	return r.pace.step(ctx)
}
