package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// heapFloor is bytes of the heap that nobody touches, so they take no memory; but Go
	// collects a small heap less often, which saves up to a twentieth of a request.
	heapFloor = 8 << 20

	// softMemory is what Go's heap and stacks take at most, about, while what is in use, and
	// heapFloor, are less than three quarters of it: garbage is collected more often near it.
	softMemory = 64 << 20
)

// tuneMemory sets when garbage is collected, until stop is called. GOMEMLIMIT replaces the
// limit that it would set.
func tuneMemory() (stop func()) {
	l := &memoryLimiter{floor: make([]byte, heapFloor), limit: softMemory}
	if os.Getenv("GOMEMLIMIT") == "" {
		l.before = debug.SetMemoryLimit(softMemory)
		l.watch()
	}
	return l.stop
}

// memoryLimiter sets Go's soft limit of memory anew after each collection: a process that
// needs more than a fixed one would do little else than collect.
type memoryLimiter struct {
	floor  []byte
	before int64 // the limit to restore; 0 = none was set

	mu      sync.Mutex
	limit   int64
	stopped bool
}

// watch has adjust called after the next collection, which finds the object unused.
func (l *memoryLimiter) watch() {
	runtime.AddCleanup(new([16]byte), (*memoryLimiter).adjust, l)
}

func (l *memoryLimiter) adjust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if limit := memoryLimit(memoryInUse()); limit != l.limit {
		debug.SetMemoryLimit(limit)
		l.limit = limit
	}
	l.watch()
}

func (l *memoryLimiter) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.before != 0 {
		debug.SetMemoryLimit(l.before)
	}
	runtime.KeepAlive(l.floor)
}

// memoryInUse is the bytes that the last collection found in use, and those of stacks.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// memoryLimit is the limit for a process with so many bytes in use: a third more, in steps,
// because setting it stops the process for a moment.
func memoryLimit(inUse int64) int64 {
	const step = 4 << 20
	return max(softMemory, (inUse*4/3+step-1)/step*step)
}
