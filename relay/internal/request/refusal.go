package request

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/refusal"
)

// SessionCookie is the cookie of the pages' sessions. The API accepts it, too.
const SessionCookie = "relay_session"

var statuses = map[refusal.Kind]int{
	refusal.KindInvalid:      http.StatusBadRequest,
	refusal.KindUnauthorized: http.StatusUnauthorized,
	refusal.KindForbidden:    http.StatusForbidden,
	refusal.KindNotFound:     http.StatusNotFound,
	refusal.KindConflict:     http.StatusConflict,
	refusal.KindTooLarge:     http.StatusRequestEntityTooLarge,
	refusal.KindMediaType:    http.StatusUnsupportedMediaType,
	refusal.KindMethod:       http.StatusMethodNotAllowed,
	refusal.KindTimeout:      http.StatusRequestTimeout,
	refusal.KindRateLimited:  http.StatusTooManyRequests,
	refusal.KindUnavailable:  http.StatusServiceUnavailable,
}

// Status returns the HTTP status of a kind of refusal.
func Status(kind refusal.Kind) int { return cmp.Or(statuses[kind], http.StatusInternalServerError) }

// RetryAfter returns the header's value for a time to wait: whole seconds, at least one.
func RetryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
