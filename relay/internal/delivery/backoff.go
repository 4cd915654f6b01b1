package delivery

import (
	"math/rand/v2"
	"time"
)

const (
	firstDelay   = time.Second
	longestDelay = 5 * time.Minute
)

// backoff returns how long to wait after the nth failed attempt: full jitter over an interval that doubles from one
// second to five minutes. A part of the first delay is always waited, so that a fault is never hammered.
func backoff(attempt int) time.Duration {
	ceiling := longestDelay
	if attempt < 10 {
		ceiling = min(longestDelay, firstDelay<<max(0, attempt-1))
	}
	return firstDelay/4 + rand.N(ceiling)
}
