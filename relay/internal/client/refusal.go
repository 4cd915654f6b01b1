package client

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relay"
)

// SessionCookie is the cookie of the pages' sessions, which opens the API too.
const SessionCookie = "relay_session"

// Status is the one HTTP status of each kind of refusal.
func Status(kind relay.Kind) int {
	switch kind {
	case relay.KindInvalid:
		return http.StatusBadRequest
	case relay.KindUnauthorized:
		return http.StatusUnauthorized
	case relay.KindForbidden:
		return http.StatusForbidden
	case relay.KindNotFound:
		return http.StatusNotFound
	case relay.KindConflict:
		return http.StatusConflict
	case relay.KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case refusal.KindMediaType:
		return http.StatusUnsupportedMediaType
	case relay.KindRateLimited:
		return http.StatusTooManyRequests
	case relay.KindUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// RetryAfter is the header's value for a time to wait: whole seconds, at least
// one.
func RetryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
