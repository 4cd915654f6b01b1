package auth

import (
	"context"
	"sync"
	"time"
)

const (
	freeFailures  = 10 // of an address within brakeMemory, before answers are delayed
	brakeStep     = 200 * time.Millisecond
	maxBrake      = 10 * time.Second
	brakeMemory   = time.Minute
	maxBrakeHosts = 4096
)

// brake delays the answers to wrong passwords from an address with many of them, so
// that guesses arrive more slowly than they are compared, and others need not wait
// for them. Right passwords are never delayed.
type brake struct {
	step  time.Duration // that each further failure adds
	mu    sync.Mutex
	hosts map[string]*failures
}

type failures struct {
	count int
	until time.Time // when they are forgotten
}

func newBrake() *brake { return &brake{step: brakeStep, hosts: map[string]*failures{}} }

// failed notes a wrong password and returns how long its answer waits.
func (b *brake) failed(host string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.hosts[host]
	if f == nil {
		b.makeRoom(now)
		f = &failures{}
		b.hosts[host] = f
	}
	if now.After(f.until) {
		f.count = 0
	}
	f.count++
	f.until = now.Add(brakeMemory)
	return min(maxBrake, max(0, time.Duration(f.count-freeFailures)*b.step))
}

// makeRoom drops hosts that are forgotten, or any one if none is.
func (b *brake) makeRoom(now time.Time) {
	if len(b.hosts) < maxBrakeHosts {
		return
	}
	var victim string
	for host, f := range b.hosts {
		if victim = host; now.After(f.until) {
			delete(b.hosts, host)
		}
	}
	if len(b.hosts) >= maxBrakeHosts {
		delete(b.hosts, victim)
	}
}

// wait waits, unless the client hangs up.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
