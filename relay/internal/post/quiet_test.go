package post

import (
	"testing"
	"time"
)

func TestQuietHours(t *testing.T) {
	for _, tt := range []struct {
		hours, zone, at string
		contain         bool
		from, to        string
	}{
		{"22:00-07:00", "", "2026-03-10T23:00:00Z", true, "2026-03-09T22:00:00Z", "2026-03-10T07:00:00Z"},
		{"22:00-07:00", "", "2026-03-10T06:59:59Z", true, "2026-03-08T22:00:00Z", "2026-03-09T07:00:00Z"},
		{"22:00-07:00", "", "2026-03-10T07:00:00Z", false, "2026-03-09T22:00:00Z", "2026-03-10T07:00:00Z"},
		{"22:00-07:00", "", "2026-03-10T21:59:59Z", false, "2026-03-09T22:00:00Z", "2026-03-10T07:00:00Z"},
		{"12:00-13:30", "", "2026-03-10T12:00:00Z", true, "2026-03-09T12:00:00Z", "2026-03-09T13:30:00Z"},
		{"12:00-13:30", "", "2026-03-10T13:30:00Z", false, "2026-03-10T12:00:00Z", "2026-03-10T13:30:00Z"},
		{"00:00-24:00", "", "2026-03-10T13:30:00Z", true, "2026-03-09T00:00:00Z", "2026-03-10T00:00:00Z"},
		{"22:00-07:00", "Asia/Kolkata", "2026-03-10T16:30:00Z", true, "2026-03-09T16:30:00Z", "2026-03-10T01:30:00Z"},
		{"22:00-07:00", "Europe/Berlin", "2026-03-29T05:00:00Z", false, "2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"}, // the night is an hour shorter
		{"22:00-07:00", "Europe/Berlin", "2026-03-29T04:59:00Z", true, "2026-03-27T21:00:00Z", "2026-03-28T06:00:00Z"},
		{"", "Europe/Berlin", "2026-03-29T04:59:00Z", false, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		h, err := ParseQuietHours(tt.hours, tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		from, to := h.Last(at)
		if got := [2]string{from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)}; h.Contain(at) != tt.contain || got != [2]string{tt.from, tt.to} {
			t.Errorf("%s %s at %s: %v, %s", tt.hours, tt.zone, tt.at, h.Contain(at), got)
		}
	}
}

func TestParseQuietHours_Refuses(t *testing.T) {
	for _, tt := range [][2]string{{"22:00", ""}, {"22:00-22:00", ""}, {"24:00-07:00", ""}, {"25:00-07:00", ""}, {"10-11", ""}, {"22:00-07:00", "Mars/Base"}, {"22:00-07:00", "../etc/passwd"}, {"22:00-07:00", "Local"}, {"", "x"}} {
		if _, err := ParseQuietHours(tt[0], tt[1]); err == nil {
			t.Errorf("%q is taken", tt)
		}
	}
}
