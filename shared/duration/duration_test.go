package duration_test

import (
	"testing"
	"time"

	"slipway/shared/duration"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "1h30m": 90 * time.Minute, "0": 0, "-5m": -5 * time.Minute,
		"7d": 7 * duration.Day, "1d12h": 36 * time.Hour, "0d": 0, "106751d": 106751 * duration.Day,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "7", "1.5d", "-7d", "7d-1h", "7days", "1h7d", "7 d", "106752d", "106751d24h", "9999999999d", "99999999999999999999d", "long"} {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 0: "0s"} {
		if got := duration.Format(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
