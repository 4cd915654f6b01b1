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

// OnlyAsked is the interval of a job without a schedule.
const OnlyAsked time.Duration = -1

// Slot lets one job run at a time of those that share it.
type Slot chan struct{}

// NewSlot is a slot that is free.
func NewSlot() Slot { return make(Slot, 1) }

// Every runs the job within Soon, and then an interval, which is a second at
// least, after each of its ends, until ctx ends. It also runs when asked receives the name of a user,
// with which the job is called. With OnlyAsked as the interval, it runs only then. A job that finds the
// slot taken waits for it; a nil slot is never taken. Every returns when the job has ended.
func Every(ctx context.Context, interval time.Duration, slot Slot, asked <-chan string, job func(ctx context.Context, by string)) {
	scheduled := interval != OnlyAsked
	interval = max(interval, time.Second)
	for wait := rand.N(min(interval, Soon)); ; wait = interval {
		var due <-chan time.Time
		if scheduled {
			due = time.After(wait)
		}
		by := ""
		select {
		case <-due:
		case by = <-asked:
		case <-ctx.Done():
			return
		}
		if !slot.run(ctx, func(ctx context.Context) { job(ctx, by) }) {
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
