package protocol

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/refusal"
)

// The bounds of a delay, which are ntfy's.
const (
	minNtfyDelay = 10 * time.Second
	maxNtfyDelay = 3 * 24 * time.Hour
)

// A delay is a number of units, such as 30m, 2 hours or 1 day.
var (
	ntfyDuration = regexp.MustCompile(`^(\d{1,7}) *([a-z]+)$`)
	ntfyUnits    = map[string]time.Duration{
		"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hour": time.Hour, "hours": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	}
)

// ntfyTime returns when a message with a delay is due: a Unix time, a duration, or a time of RFC 3339. Unlike ntfy it understands no
// sentences.
func ntfyTime(delay string, now time.Time) (time.Time, error) {
	at, ok := time.Time{}, false
	text := strings.ToLower(strings.TrimSpace(delay))
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		at, ok = time.Unix(seconds, 0), true
	} else if m := ntfyDuration.FindStringSubmatch(text); m != nil && ntfyUnits[m[2]] != 0 {
		n, _ := strconv.Atoi(m[1]) // seven digits
		unit := ntfyUnits[m[2]]
		at, ok = now.Add(min(time.Duration(n), 2*maxNtfyDelay/unit)*unit), true
	} else if t, err := time.Parse(time.RFC3339, strings.TrimSpace(delay)); err == nil {
		at, ok = t, true
	}
	switch {
	case !ok:
		return at, refusal.Invalid("delay", "invalid delay parameter: unable to parse delay; send a Unix time, or a duration such as 30m or 2 hours")
	case at.Before(now.Add(minNtfyDelay)):
		return at, refusal.Invalid("short delay", "invalid delay parameter: too small, please refer to the docs")
	case at.After(now.Add(maxNtfyDelay)):
		return at, refusal.Invalid("long delay", "invalid delay parameter: too large, please refer to the docs")
	}
	return at, nil
}
