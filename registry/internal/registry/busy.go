package registry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/driver"
)

// Who works on the storage beside this process (a collector of garbage, in
// whatever process) rests while requests are under way, and only then.

// requests counts them.
type requests struct {
	underWay atomic.Int64
	begun    atomic.Int64
}

// noteEvery is how often requests are told of.
const noteEvery = 250 * time.Millisecond

// BeginRequest notes that a client's request is under way. EndRequest follows.
func (r *Registry) BeginRequest() {
	r.requests.begun.Add(1)
	r.requests.underWay.Add(1)
}

// EndRequest notes that a request that began has ended.
func (r *Registry) EndRequest() { r.requests.underWay.Add(-1) }

// tellOthers tells those who work on the storage of requests, until stop, which
// may be called more than once.
func (q *requests) tellOthers(d driver.Driver) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticks := time.NewTicker(noteEvery)
		defer ticks.Stop()
		var told int64
		for {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
			if begun := q.begun.Load(); begun != told || q.underWay.Load() > 0 {
				told = begun
				d.Requested(ctx)
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
