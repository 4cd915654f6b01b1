package retryafter

import (
	"net/http"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, "-5": 0, "soon": 0, "99999999999999": time.Hour, "9223372036854775807": time.Hour, "-9223372036854775808": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:00:00 GMT": 0, "Fri, 02 Jan 2037 03:00:00 GMT": time.Hour,
	} {
		if got := Wait(http.Header{"Retry-After": {value}}, now, time.Hour); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
