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

// TestLongMessage: its formatted beginning arrives, and the whole text as a file behind it; withdrawn, both go.
func TestLongMessage(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("verbose", "")
	long := strings.Repeat("- **a line** of a long log \"quoted\" é 🦀\n", 20000)
	id := s.becomes(s.post(a, object{"title": "Log", "message": long, "priority": 2}), "sent").id()
	s.eventually("the file", func() bool { return len(s.events(a.room)) == 2 })
	events := s.events(a.room)
	if n := len(events[0].Content); n < 30_000 || !strings.HasSuffix(events[0].Field("body"), "… The whole text is in the file below.") {
		t.Errorf("the event has %d bytes and ends in %q", n, events[0].Field("body")[max(0, len(events[0].Field("body"))-60):])
	}
	if html := events[0].Field("formatted_body"); !strings.Contains(html, "</ul><p>") && !strings.Contains(html, "</ul>\n<p>") {
		t.Errorf("formatted, it ends in %q", html[max(0, len(html)-100):])
	}
	if events[1].Field("msgtype") != "m.file" || events[1].Field("body") != "message.md" || strings.Contains(string(events[1].Content), s.owner.ID) {
		t.Fatalf("the file is %s", events[1].Content)
	}
	file, err := s.owner.Download(s.ctx, events[1].Field("url"))
	s.must(err)
	if want := "Log\n\n" + long; strings.TrimSpace(string(file)) != strings.TrimSpace(want) {
		t.Errorf("the file has %d bytes, want %d", len(file), len(want))
	}
	if status, out := s.ask(http.MethodDelete, fmt.Sprint("/message/", id), nil); status != http.StatusOK {
		t.Errorf("%d %v", status, out)
	}
	s.eventually("both are removed", func() bool { return strings.Join(s.bodies(a.room), "") == "" })
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
