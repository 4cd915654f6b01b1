package collect

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Beside a server a run takes its time, so that pulls hardly notice it: no more
// than a tenth of what the processors of the machine can do.

const (
	spell      = 5 * time.Millisecond // of work between two rests
	processors = 10                   // of which a run takes one
)

// pace lets a run rest. It is shared by all hands: who comes while one rests
// rests too.
type pace struct {
	mu    sync.Mutex
	since time.Time // of the last rest; zero = there is no need to
}

// begin makes the run take its time from now on.
func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// step is called for each object. It rests if that is due.
func (p *pace) step(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return ctx.Err()
	}
	worked := time.Since(p.since)
	if worked < spell {
		return ctx.Err()
	}
	select {
	case <-time.After(restAfter(worked, runtime.GOMAXPROCS(0))):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.since = time.Now()
	return nil
}

// restAfter is how long to rest after so much work on a machine with so many
// processors.
func restAfter(worked time.Duration, n int) time.Duration {
	return max(0, worked*processors/time.Duration(n)-worked)
}
