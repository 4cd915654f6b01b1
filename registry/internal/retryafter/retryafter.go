// Package retryafter reads the Retry-After of an answer (RFC 9110, 10.2.3).
package retryafter

import (
	"net/http"
	"strconv"
	"time"
)

// Wait returns how long a client should wait from now on, at most limit: 0 without a header
// that is a number of seconds or a date to come.
func Wait(h http.Header, now time.Time, limit time.Duration) time.Duration {
	var wait time.Duration
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		wait = time.Duration(min(seconds, int64(limit/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), limit)
}
