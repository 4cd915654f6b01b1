// Package duration parses and formats durations, with days.
package duration

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// Parse parses a duration such as 10s, 1h30m, 7d or 1d12h. A day is 24 hours. The error is a sentence about the text.
func Parse(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || found && strings.HasPrefix(rest, "-") {
		return 0, invalid(text)
	}
	var d time.Duration
	if rest != "" || !found {
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, invalid(text)
		}
	}
	if n > uint64((math.MaxInt64-max(d, 0))/Day) {
		return 0, invalid(text)
	}
	return time.Duration(n)*Day + d, nil
}

func invalid(text string) error {
	return fmt.Errorf("%q is not a duration such as 10s, 5m, 12h or 7d", text)
}

// Format formats a duration without the trailing zeros of Duration.String: 24h.
func Format(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}
