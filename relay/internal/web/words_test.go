package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
)

func TestPreview(t *testing.T) {
	for body, want := range map[string]string{
		"[[acme/shop](https://e.org/?a=1&b=%3E)] *ann* pushed **1** commit\n\n- `0123456` Fix <the> cart & more": "[acme/shop] ann pushed 1 commit 0123456 Fix <the> cart & more",
		`[a](https://e.org "x > y")b`:   "ab",
		"one\ntwo\n\nthree":             "one two three",
		"![door](mxc://e.org/1) opened": "door opened",
	} {
		if got := preview(140, post.Content{Body: body}); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
	if got := preview(140, post.Content{Body: "a <b> [c](https://e.org)", ContentType: "text/plain"}); got != "a <b> [c](https://e.org)" {
		t.Errorf("plain text: %q", got)
	}
}

func TestChart(t *testing.T) {
	hours := make([]service.Hour, 24)
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

// TestDegradedHomeserver: no page says that all is well while nothing is heard of the homeserver.
func TestDegradedHomeserver(t *testing.T) {
	pages, err := parsePages("")
	if err != nil {
		t.Fatal(err)
	}
	status := delivery.Status{Condition: delivery.Condition{Degraded: "sync fails"}}
	for name, data := range map[string]any{"rooms": roomsPage{Status: status}, "dashboard": dashboardPage{Status: status}} {
		w := httptest.NewRecorder()
		if err := pages.Show(w, http.StatusOK, name, data); err != nil {
			t.Fatal(err)
		}
		if text := w.Body.String(); !strings.Contains(text, "The homeserver does not respond.</strong> Sync fails.") || strings.Contains(text, "accepts messages") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
