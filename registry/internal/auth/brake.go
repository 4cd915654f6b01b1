package auth

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	freeFailures = 10 // of an address or at a name within brakeMemory, before answers are delayed
	freeMistakes = 2  // of an address at a name that others guess at, before it counts as one of them
	brakeStep    = 300 * time.Millisecond
	maxBrake     = 30 * time.Second
	brakeMemory  = time.Minute
	maxBraked    = 4096 // addresses, and names, that are remembered
	maxBrakeName = 64   // bytes of a name
)

// brake delays the answers to wrong passwords from an address with many of them, and at
// a name with many of them, so that guesses arrive more slowly than they are compared.
// Right passwords are never delayed.
type brake struct {
	step         time.Duration // that each further failure adds
	mu           sync.Mutex
	hosts, names tally
}

// tally counts failures by what they have in common.
type tally map[string]*failures

type failures struct {
	count int
	until time.Time // when they are forgotten
}

func newBrake() *brake { return &brake{step: brakeStep, hosts: tally{}, names: tally{}} }

// failed notes a wrong password and returns how long its answer waits.
func (b *brake) failed(host, name string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := max(b.hosts.add(host, now), b.names.add(brakeName(name), now))
	return min(maxBrake, max(0, time.Duration(count-freeFailures)*b.step))
}

// suspects says whether a password that is not known to be right is probably a guess:
// its address has failed often, or more often than people mistype at a name that is
// guessed from elsewhere.
func (b *brake) suspects(host, name string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ofHost := b.hosts.count(host, now)
	return ofHost > freeFailures || ofHost > freeMistakes && b.names.count(brakeName(name), now) > freeFailures
}

// brakeName bounds what names cost.
func brakeName(name string) string { return name[:min(len(name), maxBrakeName)] }

func (t tally) count(key string, now time.Time) int {
	if f := t[key]; f != nil && !now.After(f.until) {
		return f.count
	}
	return 0
}

func (t tally) add(key string, now time.Time) int {
	f := t[key]
	if f == nil {
		t.makeRoom(now)
		f = &failures{}
		t[strings.Clone(key)] = f // it may be the beginning of a long name
	}
	if now.After(f.until) {
		f.count = 0
	}
	f.count++
	f.until = now.Add(brakeMemory)
	return f.count
}

// makeRoom drops what is forgotten, or some if nothing is.
func (t tally) makeRoom(now time.Time) {
	if len(t) < maxBraked {
		return
	}
	for key, f := range t {
		if now.After(f.until) {
			delete(t, key)
		}
	}
	for key := range t {
		if len(t) < maxBraked*3/4 {
			return
		}
		delete(t, key)
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
