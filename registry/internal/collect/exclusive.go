package collect

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// exclusive is held while nobody serves the storage: then nobody relies on
// anything and nobody can begin to, so the first look is right and what nothing
// needs is deleted at once. As soon as a server waits, the run lets it in and goes
// on with lists.
type exclusive struct {
	mu    sync.RWMutex  // held for reading by each deletion
	lease storage.Lease // nil = it is not held
	asked atomic.Uint64
}

// askEvery is how many objects are looked at between two looks for who waits.
const askEvery = 64

func (e *exclusive) now() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.lease != nil
}

// do calls f if the run is exclusive, and keeps it so until f returns.
func (e *exclusive) do(f func() error) (was bool, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.lease == nil {
		return false, nil
	}
	return true, f()
}

// end returns what it gave back, nil if nothing was held.
func (e *exclusive) end() (was storage.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was = e.lease; was != nil {
		was.Release()
		e.lease = nil
	}
	return was
}

// step is called for each object. It lets in who waits to serve, and rests if that
// is due.
func (r *run) step(ctx context.Context) error {
	if r.exclusive.asked.Add(1)%askEvery == 0 && r.wanted() {
		if err := r.letIn(ctx); err != nil {
			return err
		}
	}
	return r.pace.step(ctx)
}

func (r *run) wanted() bool {
	r.exclusive.mu.RLock()
	defer r.exclusive.mu.RUnlock()
	return r.exclusive.lease != nil && r.exclusive.lease.Wanted()
}

// letIn lets servers in, who find the run published. Where a full storage had no
// room for that, there may be some by now. Another worker may have done so already,
// and one may have listed something since.
func (r *run) letIn(ctx context.Context) error {
	r.listing.Lock()
	defer r.listing.Unlock()
	if !r.exclusive.now() {
		return nil
	}
	if err := r.publish(ctx); err != nil {
		return err
	}
	r.fence.drop(r.exclusive.end())
	r.pace.begin(r.Paced)
	r.Log.Info("garbage collection goes on beside a registry that has started", zap.String("run", r.name))
	return nil
}
