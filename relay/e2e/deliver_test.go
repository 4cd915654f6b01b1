package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestFirstMessage(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("backup", "")
	id := s.post(a, object{"title": "Backup", "message": "**12 GB** in `3` minutes", "priority": 2})
	m := s.becomes(id, "sent")
	events := s.events(a.room)
	if len(events) != 1 || events[0].ID != m.text("event_id") {
		t.Fatalf("events %+v, message %v", events, m)
	}
	var content object
	s.must(json.Unmarshal(events[0].Content, &content))
	for field, want := range map[string]string{
		"body": "[max] Backup\n\n12 GB in 3 minutes", "msgtype": "m.text", "format": "org.matrix.custom.html",
		"formatted_body": "<p><strong><span data-mx-color=\"#ed1f11\">[max] Backup</span></strong></p>\n<p><strong>12 GB</strong> in <code>3</code> minutes</p>",
	} {
		if content.text(field) != want {
			t.Errorf("%s = %q, want %q", field, content.text(field), want)
		}
	}
	if got := fmt.Sprint(content["m.mentions"]); got != "map[room:true user_ids:["+s.owner.ID+"]]" {
		t.Errorf("m.mentions = %s", got)
	}
}

// TestLongMessage: it arrives in several formatted events, and what is too long for that as a file behind them.
func TestLongMessage(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("verbose", "")
	send := func(text string) int {
		t.Helper()
		status, out := s.request(http.MethodPost, "/message", object{"token": a.token, "title": "Log", "message": text}, nil)
		if status != http.StatusOK {
			t.Fatalf("%d %v", status, out)
		}
		status, out = s.ask(http.MethodGet, fmt.Sprint("/message/", out["id"]), nil)
		n, _ := out["events"].(float64)
		if status != http.StatusOK || n < 2 {
			t.Fatalf("%d %v", status, out)
		}
		return int(n)
	}
	n := send(strings.Repeat("- **a line** of a long log \"quoted\" é 🦀\n", 2000))
	s.eventually("all parts", func() bool { return len(s.events(a.room)) == n })
	lines := 0
	for i, e := range s.events(a.room) {
		if html := e.Field("formatted_body"); !strings.HasSuffix(html, "</ul>") {
			t.Errorf("event %d ends in %q", i, html[max(0, len(html)-40):])
		}
		lines += strings.Count(e.Field("body"), "• a line of a long log")
	}
	if lines != 2000 {
		t.Errorf("%d lines arrived, want 2000", lines)
	}

	long := strings.Repeat("a line of a long log \"quoted\" é 🦀\n", 20000)
	n += send(long) + 1
	s.eventually("all parts and the file", func() bool { return len(s.events(a.room)) == n })
	events := s.events(a.room)
	if last := events[n-2]; !strings.HasSuffix(last.Field("body"), "… (truncated)") || len(last.Content) < 30_000 {
		t.Errorf("the last part has %d bytes and ends in %q", len(last.Content), last.Field("body")[len(last.Field("body"))-40:])
	}
	shown := 0
	for _, e := range events[:n-1] {
		shown += len(e.Field("body"))
	}
	if shown < 190_000 { // of both, 84,000 and 780,000
		t.Errorf("the parts show %d bytes", shown)
	}
	if events[n-1].Field("msgtype") != "m.file" {
		t.Fatalf("the last event is %s", events[n-1].Content)
	}
	file, err := s.owner.Download(s.ctx, events[n-1].Field("url"))
	s.must(err)
	if want := "Log\n\n" + long; strings.TrimSpace(string(file)) != strings.TrimSpace(want) {
		t.Errorf("the file has %d bytes, want %d", len(file), len(want))
	}
}

func TestGracefulStop(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("stopper", "")
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint("m", i))
		s.say(a, want[i])
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	before := len(s.bodies(a.room))
	s.start()
	s.arrives(a.room, want...)
	if n := len(s.proxy.Records("/logout")); n != 0 {
		t.Errorf("%d logouts", n)
	}
	if n := len(s.proxy.Records("/login")); n != 1 {
		t.Errorf("%d logins over two starts", n)
	}
	t.Logf("%d of 20 were delivered before the stop", before)
}
