package collect

import (
	"context"
	"sync"
	"time"
)

// A scheduled run yields to the requests of its server, so that pulls
// hardly notice it: it uses no more than a tenth of the machine's processors.
// Waiting for the storage is no work.

const (
	spell      = 5 * time.Millisecond // of work between two rests
	maxStep    = time.Millisecond     // what takes longer than that has waited
	processors = 10                   // of which a run takes one
)

// pace lets a run rest. All workers share it, and rest together.
type pace struct {
	machine int // its processors

	on bool

	mu     sync.Mutex
	last   time.Time // step
	worked time.Duration
}

// step is called for each object. It rests if that is due.
func (p *pace) step(ctx context.Context) error {
	if !p.on {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.worked += min(now.Sub(p.last), maxStep)
	p.last = now
	if p.worked < spell {
		return ctx.Err()
	}
	select {
	case <-time.After(restAfter(p.worked, p.machine)):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.last, p.worked = time.Now(), 0
	return nil
}

// restAfter returns how long to rest after that much work on a machine with that number of
// processors.
func restAfter(worked time.Duration, n int) time.Duration {
	return max(0, worked*processors/time.Duration(n)-worked)
}
