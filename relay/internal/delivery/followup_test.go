package delivery

import (
	"testing"
	"time"
)

// A follow-up is tried for about half an hour.
func TestFollowUpIsTriedForHalfAnHour(t *testing.T) {
	const rounds = 200
	var total time.Duration
	for range rounds {
		for n := 1; n < followUpTries; n++ {
			total += backoff(n)
		}
	}
	if mean := total / rounds; mean < 25*time.Minute || mean > 35*time.Minute {
		t.Errorf("it is given up after %v", mean)
	}
}
