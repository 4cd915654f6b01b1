package web

import (
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/outbox"
)

func TestWords(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "just now", 59 * time.Second: "59 s ago", 90 * time.Second: "1 min ago", 47 * time.Hour: "47 h ago", 72 * time.Hour: "3 days ago", -time.Minute: "just now"} {
		if got := ago(now, now.Add(-d)); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := ago(now, time.Time{}); got != "never" {
		t.Errorf("no time: %q", got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "-1\u202f000"} {
		if got := count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := excerpt(5, "a \n b  cdefgh"); got != "a b c…" {
		t.Errorf("excerpt %q", got)
	}
	for in, want := range map[string]string{"the room": "The room.", "Done!": "Done!", "": "", "über": "Über."} {
		if got := sentence(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, s := range outbox.States {
		if stateWord(s) == "" || stateNote(s) == "" {
			t.Errorf("%s has no words", s)
		}
	}
}

func TestChart(t *testing.T) {
	hours := make([]intake.Hour, 24)
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for i := range hours {
		hours[i].Start = start.Add(time.Duration(i) * time.Hour)
	}
	if c := newChart(hours, start); len(c.Columns) != 24 || len(c.Lines) != 0 || c.Columns[3].SentHeight != 0 {
		t.Errorf("an empty day has %d columns, %d lines", len(c.Columns), len(c.Lines))
	}
	hours[22].Sent, hours[23].Sent, hours[23].Dead = 1, 700, 300
	c := newChart(hours, start)
	last := c.Columns[23]
	if last.DeadY != chartTop || last.DeadHeight+last.SentHeight != chartBase-chartTop || last.Label != "now" {
		t.Errorf("the highest column is %+v", last)
	}
	if small := c.Columns[22]; small.SentHeight < 2 {
		t.Errorf("one message is not to be seen: %+v", small)
	}
	for n, want := range map[int64]int64{1: 2, 2: 2, 3: 4, 7: 8, 10: 10, 11: 20, 61: 80, 1000: 1000, 1001: 2000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d rounds to %d, want %d", n, got, want)
		}
	}
}

func TestInitial(t *testing.T) {
	for name, want := range map[string]string{"admin": "a", "Ängela": "Ä", "李": "李"} {
		if got := initial(name); got != want {
			t.Errorf("the first letter of %s is %q", name, got)
		}
	}
}

func TestRemaining(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24*time.Hour - 300*time.Millisecond: "24 h", 7*24*time.Hour - time.Second/3: "7 days", time.Hour - time.Second/3: "1 h",
		59 * time.Second: "59 s", 90 * time.Second: "2 min", -time.Second: "0 s",
	} {
		if got := remaining(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// TestDegradedHomeserver: no page says that all is well while nothing is heard of the homeserver.
func TestDegradedHomeserver(t *testing.T) {
	pages, err := parsePages()
	if err != nil {
		t.Fatal(err)
	}
	status := delivery.Status{Degraded: "sync fails"}
	for name, data := range map[string]any{"rooms": roomsPage{Status: status}, "dashboard": dashboardPage{Status: status}} {
		var b strings.Builder
		if err := pages[name].ExecuteTemplate(&b, "frame", data); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, "The homeserver does not respond.</strong> Sync fails.") || strings.Contains(text, "accepts messages") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
