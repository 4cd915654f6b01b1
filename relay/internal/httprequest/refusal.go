package httprequest

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/refusal"
)

// SessionCookie is the cookie of the pages' sessions, which opens the API too.
const SessionCookie = "relay_session"

// Status is the one HTTP status of each kind of refusal.
func Status(kind refusal.Kind) int {
	switch kind {
	case refusal.KindInvalid:
		return http.StatusBadRequest
	case refusal.KindUnauthorized:
		return http.StatusUnauthorized
	case refusal.KindForbidden:
		return http.StatusForbidden
	case refusal.KindNotFound:
		return http.StatusNotFound
	case refusal.KindConflict:
		return http.StatusConflict
	case refusal.KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case refusal.KindMediaType:
		return http.StatusUnsupportedMediaType
	case refusal.KindRateLimited:
		return http.StatusTooManyRequests
	case refusal.KindUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// RetryAfter is the header's value for a time to wait: whole seconds, at least
// one.
func RetryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
