package notify

import (
	"math/rand/v2"
	"time"
)

// maxBackoff is where the time between two tries stops growing, unless the
// configured time is longer already.
const maxBackoff = time.Minute

// quickRetries is how much faster than backoff the tries before the threshold
// follow each other.
const quickRetries = 10

// backoff says how long to wait after a number of failures in a row: a tenth of
// the configured time until the threshold is reached, the time itself from then
// on, doubled with each failure up to a minute. Each is shortened or lengthened
// by up to a quarter, so that replicas do not knock together.
type backoff struct {
	threshold int
	base      time.Duration
}

func (b backoff) wait(failures int, asked time.Duration) time.Duration {
	wait := b.base / quickRetries
	if failures >= b.threshold {
		wait = b.base << min(failures-b.threshold, 16)
		wait = min(max(wait, b.base), max(maxBackoff, b.base))
	}
	return max(wait*3/4+time.Duration(rand.Int64N(int64(wait/2)+1)), asked)
}
