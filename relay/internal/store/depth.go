package store

import (
	"sync"
	"time"
)

// depth is how much waits, counted at most once a second. What this relay accepts in between is added, so that limits hold.
type depth struct {
	mu      sync.Mutex
	n       int64
	counted time.Time
}

func (d *depth) add(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n += n
}

// get returns the number.
func (d *depth) get(count func() (int64, error)) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.counted) < time.Second {
		return d.n, nil
	}
	n, err := count()
	if err != nil {
		return 0, err
	}
	d.n, d.counted = n, time.Now()
	return n, nil
}
