// Package schedule says when the maintenance of the storage runs in a server.
package schedule

import (
	"context"
	"math/rand/v2"
	"time"
)

// Soon bounds the wait for the first run, so that replicas that are started
// together spread out.
const Soon = time.Minute

// Slot lets one job run at a time of those that share it.
type Slot chan struct{}

// NewSlot is a slot that is free.
func NewSlot() Slot { return make(Slot, 1) }

// Every runs the job within Soon, and then an interval, which is a second at
// least, after each of its ends, until ctx ends. A job that finds the slot taken
// waits for it; a nil slot is never taken. It returns when the job has ended.
func Every(ctx context.Context, interval time.Duration, slot Slot, job func(context.Context)) {
	interval = max(interval, time.Second)
	for wait := rand.N(min(interval, Soon)); ; wait = interval {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if !slot.run(ctx, job) {
			return
		}
	}
}

// run is false if ctx ended before the slot was free.
func (s Slot) run(ctx context.Context, job func(context.Context)) bool {
	if s != nil {
		select {
		case s <- struct{}{}:
			defer func() { <-s }()
		case <-ctx.Done():
			return false
		}
	}
	job(ctx)
	return true
}
