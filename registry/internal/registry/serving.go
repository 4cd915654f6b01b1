package registry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
)

// serving is whether collectors of garbage know that this process serves the
// storage. While they do not, one may believe that it is alone, and remove what
// a client of ours has been told of. So nothing is taken then that would rely on
// what is there. Reading and deleting go on: neither needs what a collector
// removes, and deleting is what gives a full storage its room back.
type serving struct {
	wanted atomic.Bool   // by Serve; a process that only maintains need not tell
	told   atomic.Bool   // they know
	since  time.Time     // of the storage, when they were told; set before told is
	turn   chan struct{} // holds a token while somebody tells them; guards leave and ended
	leave  func()
	ended  bool
}

var errNotServing = errors.New("the registry does not serve any more")

// Serve tells collectors of garbage in other processes that this one serves the
// storage, until leave, which is never nil. An error says why that cannot be
// now. Pushes are then answered with UNAVAILABLE until it can: each of them tries
// again, and each Check of writing. Others are told of requests, too (BeginRequest).
func (r *Registry) Serve(ctx context.Context) (leave func(), err error) {
	r.serving.wanted.Store(true)
	stop := r.requests.tellOthers(r.driver)
	return func() {
		stop()
		r.stopServing()
	}, r.announce(ctx)
}

func (r *Registry) stopServing() {
	s := &r.serving
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.ended = true
	s.told.Store(false)
	if s.leave != nil {
		s.leave()
		s.leave = nil
	}
}

// announce tells collectors, unless they know. The error is that of the driver.
func (r *Registry) announce(ctx context.Context) error {
	s := &r.serving
	if s.told.Load() || !s.wanted.Load() {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.told.Load() {
		return nil
	}
	if s.ended {
		return errNotServing
	}
	leave, err := r.driver.Serve(ctx)
	if err != nil {
		return err
	}
	s.leave, s.since = leave, r.driver.Now()
	s.told.Store(true)
	return nil
}

// began says whether this process began to serve after the time.
func (s *serving) began(after time.Time) bool { return s.told.Load() && s.since.After(after) }

// maxHeldBack is for how long a push waits to be let in: less than clients do.
const maxHeldBack = 10 * time.Second

// takes is nil if the registry takes pushes now. UNSUPPORTED, UNAVAILABLE.
func (r *Registry) takes(ctx context.Context) error {
	if err := r.writable(); err != nil || r.serving.told.Load() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxHeldBack)
	defer cancel()
	err := r.announce(ctx)
	if err == nil {
		return nil
	}
	return &oci.Error{Code: oci.CodeUnavailable, Message: "pushes are held back: " + heldBack(err), Err: err}
}

func heldBack(err error) string {
	switch {
	case errors.Is(err, driver.ErrNoSpace):
		return "there is no room on the storage for even an empty file; deleting or collecting garbage makes some"
	case errors.Is(err, context.DeadlineExceeded):
		return "a garbage collection that began before this registry does not let it in"
	default:
		return faultText(err)
	}
}

// tell is announce for a reader, who goes on in any case and hardly waits.
func (r *Registry) tell(ctx context.Context) {
	if r.serving.told.Load() || !r.serving.wanted.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_ = r.announce(ctx) // whoever pushes is told why it cannot be
}
