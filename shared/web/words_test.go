package web

import (
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "just now", 59 * time.Second: "59 s ago", 90 * time.Second: "1 min ago", 47 * time.Hour: "47 h ago", 72 * time.Hour: "3 days ago", -time.Minute: "just now"} {
		if got := Ago(now, now.Add(-d)); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := Ago(now, time.Time{}); got != "never" {
		t.Errorf("no time: %q", got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "-1\u202f000"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 99_949: "99.9 kB", 99_950: "100 kB", 999_949: "1000 kB", 999_950: "1.0 MB", 31_234_567: "31.2 MB", 5e12: "5.0 TB", -2048: "-2.0 kB"} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	if got := Excerpt(5, "a \n b  cdefgh"); got != "a b c…" {
		t.Errorf("excerpt %q", got)
	}
	for in, want := range map[string]string{"the room": "The room.", "Done!": "Done!", "": "", "über": "Über."} {
		if got := Sentence(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
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
