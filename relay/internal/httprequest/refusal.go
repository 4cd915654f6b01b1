package httprequest

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/refusal"
)

// SessionCookie is the cookie of the pages' sessions. The API accepts it, too.
const SessionCookie = "relay_session"

// Status returns the HTTP status of a kind of refusal.
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
	case refusal.KindMethod:
		return http.StatusMethodNotAllowed
	case refusal.KindTimeout:
		return http.StatusRequestTimeout
	case refusal.KindRateLimited:
		return http.StatusTooManyRequests
	case refusal.KindUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// RetryAfter returns the header's value for a time to wait: whole seconds, at least one.
func RetryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
