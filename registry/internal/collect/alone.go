package collect

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
)

// Where nobody serves the storage, nobody relies on anything, and nobody can
// begin to while the run keeps them waiting. Then there is no need to set
// anything aside: the first look is right, and what nothing needs is removed at
// once. As soon as a server waits, the run lets it in and goes on with care.

// askEvery is how many objects are read or removed between two looks for who
// waits.
const askEvery = 64

// alone is held for reading by each hand while it removes something, and for
// writing by the one that lets a server in: then no removal is under way that
// does not know of it.
type alone struct {
	mu      sync.RWMutex
	wanted  func() bool // says that somebody waits to serve
	release func()      // nil = not alone
	asked   atomic.Uint64
}

// beAlone tries to be alone. What a killed run left aside wants the long way.
func (r *run) beAlone(ctx context.Context) error {
	if _, err := r.Driver.Stat(ctx, layout.AsideRoot); !absent(err) {
		return err
	}
	wanted, release, err := r.Driver.Alone(ctx)
	if errors.Is(err, driver.ErrBusy) {
		return nil
	}
	if err == nil {
		r.alone.wanted, r.alone.release = wanted, release
		r.pace.begin(nil)
	}
	return err
}

// removeAlone removes an object at once if the run is still alone, and says
// whether it was.
func (r *run) removeAlone(ctx context.Context, path string) (was bool, err error) {
	r.letIn()
	r.alone.mu.RLock()
	defer r.alone.mu.RUnlock()
	if r.alone.release == nil {
		return false, nil
	}
	return true, r.Driver.Discard(ctx, path)
}

// letIn is called for each object, and lets in who waits to serve.
func (r *run) letIn() {
	if r.alone.asked.Add(1)%askEvery == 0 && r.isWanted() {
		r.endAlone()
	}
}

func (r *run) isWanted() bool {
	r.alone.mu.RLock()
	defer r.alone.mu.RUnlock()
	return r.alone.release != nil && r.alone.wanted()
}

// wasAlone says whether the run was alone from its beginning until now.
func (r *run) wasAlone() bool {
	r.alone.mu.RLock()
	defer r.alone.mu.RUnlock()
	return r.alone.release != nil
}

// endAlone lets servers in, once no hand removes anything.
func (r *run) endAlone() {
	r.alone.mu.Lock()
	defer r.alone.mu.Unlock()
	if r.alone.release != nil {
		r.alone.release()
		r.alone.release = nil
		r.pace.begin(r.Driver.Busy)
	}
}
