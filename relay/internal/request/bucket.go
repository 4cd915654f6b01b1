package request

import (
	"sync"
	"time"
)

// Bucket is a token bucket: burst events at once, refilled at a rate per minute. The zero value is full.
type Bucket struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// Take takes one token, or returns how long to wait for one. A rate of 0 does not limit.
func (b *Bucket) Take(now time.Time, perMinute, burst int) time.Duration {
	return b.ask(now, perMinute, burst, 1)
}

// Peek is Take without taking a token.
func (b *Bucket) Peek(now time.Time, perMinute, burst int) time.Duration {
	return b.ask(now, perMinute, burst, 0)
}

func (b *Bucket) ask(now time.Time, perMinute, burst int, taken float64) time.Duration {
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

// Idle returns the time since the last call of Take or Peek.
func (b *Bucket) Idle(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.at)
}

// GiveBack returns one token.
func (b *Bucket) GiveBack() {
	b.mu.Lock()
	b.tokens++ // the next take caps it
	b.mu.Unlock()
}
