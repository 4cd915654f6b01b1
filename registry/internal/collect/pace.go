package collect

import (
	"context"
	"sync"
	"time"
)

// Beside a server that answers requests a run takes its time, so that pulls
// hardly notice it: no more than a tenth of what the processors of the machine can
// do. Waiting for the disk is no work. While no server has anything to do, the run
// does not rest.

const (
	spell      = 5 * time.Millisecond // of work between two rests
	maxStep    = time.Millisecond     // what takes longer than that has waited
	processors = 10                   // of which a run takes one
)

// pace lets a run rest. It is shared by all hands: who comes while one rests
// rests too.
type pace struct {
	machine int // its processors

	mu     sync.Mutex
	busy   func(context.Context) bool // says whether requests are under way; nil = there is no need to rest
	last   time.Time                  // step
	worked time.Duration
}

// begin makes the run take its time from now on, while busy says so; with nil, it
// does not.
func (p *pace) begin(busy func(context.Context) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.last = busy, time.Now()
}

// step is called for each object. It rests if that is due.
func (p *pace) step(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		return ctx.Err()
	}
	now := time.Now()
	p.worked += min(now.Sub(p.last), maxStep)
	p.last = now
	if p.worked < spell {
		return ctx.Err()
	}
	if err := p.rest(ctx); err != nil {
		return err
	}
	p.last, p.worked = time.Now(), 0
	return nil
}

// rest rests if requests are under way.
func (p *pace) rest(ctx context.Context) error {
	if !p.busy(ctx) {
		return ctx.Err()
	}
	select {
	case <-time.After(restAfter(p.worked, p.machine)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restAfter is how long to rest after so much work on a machine with so many
// processors.
func restAfter(worked time.Duration, n int) time.Duration {
	return max(0, worked*processors/time.Duration(n)-worked)
}
