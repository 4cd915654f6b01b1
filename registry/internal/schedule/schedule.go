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

// Turn lets one job run at a time of those that have it.
type Turn chan struct{}

// NewTurn is a turn that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// Every runs the job within Soon, and then an interval, which is a second at
// least, after each of its ends, until ctx ends. A job that finds the turn taken
// waits for it; a nil turn is never taken. It returns when the job has ended.
func Every(ctx context.Context, interval time.Duration, turn Turn, job func(context.Context)) {
	interval = max(interval, time.Second)
	for wait := rand.N(min(interval, Soon)); ; wait = interval {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if !turn.run(ctx, job) {
			return
		}
	}
}

// run is false if ctx ended before it was the job's turn.
func (t Turn) run(ctx context.Context, job func(context.Context)) bool {
	if t != nil {
		select {
		case t <- struct{}{}:
			defer func() { <-t }()
		case <-ctx.Done():
			return false
		}
	}
	job(ctx)
	return true
}
