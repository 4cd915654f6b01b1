package collect

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// While nobody serves the storage a run is exclusive: nobody relies on anything and
// nobody can begin to, so the first look is right and what nothing needs is deleted at
// once, by several workers. When a server waits, the run publishes its name, lets the
// server in, and goes on with lists: all writers know of the run, as there were none
// before.

// askEvery is how many objects are looked at between two looks for who waits.
const askEvery = 64

// errWanted ends what is deleted at once.
var errWanted = errors.New("a registry waits to serve the storage")

// begin makes the run exclusive. If somebody serves, it makes sure instead that all writers
// know of it.
func (r *run) begin(ctx context.Context) error {
	lease, err := r.Coordinator.Exclusive(ctx)
	if errors.Is(err, storage.ErrBusy) {
		r.pace.begin(r.Paced)
		return r.tryListed(ctx, firstPatience, nil, func(context.Context) error { return nil })
	}
	if err == nil {
		r.exclusive = lease
		r.alone.Store(true)
	}
	return err
}

// end lets everybody go on.
func (r *run) end(ctx context.Context) {
	if r.alone.Load() {
		r.exclusive.Release()
	} else {
		r.withdraw(ctx)
	}
}

// wanted says whether the run is exclusive and somebody waits to serve.
func (r *run) wanted() bool { return r.alone.Load() && r.exclusive.Wanted() }

// letIn lets servers in that wait. Nothing is being deleted meanwhile.
func (r *run) letIn(ctx context.Context) error {
	if !r.wanted() {
		return nil
	}
	r.deleting.Lock()
	defer r.deleting.Unlock()
	if !r.alone.Load() {
		return nil
	}
	if err := r.publish(ctx); err != nil {
		return err
	}
	r.pace.begin(r.Paced)
	r.alone.Store(false)
	r.exclusive.Release()
	r.Log.Info("garbage collection goes on beside a registry that has started", zap.String("run", r.name))
	return nil
}

// atOnce calls f while the run is exclusive. It is not done if it is not any more, or if a
// server began to wait; f ends with errWanted then.
func (r *run) atOnce(ctx context.Context, f func(context.Context) error) (done bool, err error) {
	if err := r.letIn(ctx); err != nil {
		return true, err
	}
	r.deleting.RLock()
	if !r.alone.Load() {
		r.deleting.RUnlock()
		return false, nil
	}
	err = f(ctx)
	r.deleting.RUnlock()
	if errors.Is(err, errWanted) {
		err = r.letIn(ctx)
		return err != nil, err
	}
	return true, err
}

// step is called for each object. It lets in who waits to serve, and rests if that is
// due.
func (r *run) step(ctx context.Context) error {
	if r.steps.Add(1)%askEvery == 0 {
		if err := r.letIn(ctx); err != nil {
			return err
		}
	}
	return r.pace.step(ctx)
}
