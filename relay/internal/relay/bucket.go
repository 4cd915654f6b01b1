package relay

import (
	"sync"
	"time"
)

// bucket is a token bucket: burst messages at once, refilled at a rate per minute.
type bucket struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// take takes one token, or returns how long to wait for one. A rate of 0 does not limit.
func (b *bucket) take(now time.Time, perMinute, burst int) time.Duration {
	return b.ask(now, perMinute, burst, 1)
}

// look is take that takes nothing.
func (b *bucket) look(now time.Time, perMinute, burst int) time.Duration {
	return b.ask(now, perMinute, burst, 0)
}

func (b *bucket) ask(now time.Time, perMinute, burst int, taken float64) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	if burst <= 0 {
		burst = perMinute
	}
	rate := float64(perMinute) / float64(time.Minute)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.tokens = float64(burst)
	} else {
		b.tokens = min(float64(burst), b.tokens+rate*float64(max(0, now.Sub(b.at))))
	}
	b.at = now
	if b.tokens >= 1 {
		b.tokens -= taken
		return 0
	}
	return time.Duration((1 - b.tokens) / rate)
}

// idle returns how long nobody has asked.
func (b *bucket) idle(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.at)
}

// giveBack returns one token.
func (b *bucket) giveBack() {
	b.mu.Lock()
	b.tokens++ // the next take caps it
	b.mu.Unlock()
}
