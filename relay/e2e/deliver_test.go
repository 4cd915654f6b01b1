package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
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

// The relay is killed at each stage of long messages to an encrypted room and a plain one: each is there once, as an event and a file.
func TestLongMessage_KilledAtEachStage(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	apps := []app{s.application("sealed", room), s.application("plain", "")}
	const send = "/send/m.room."
	both := servertest.Rule{Path: send, Times: len(apps), Fault: servertest.Delay(0)}
	var want []string
	for i, stage := range []struct {
		rules    []servertest.Rule
		requests int // for the path of the last rule
	}{
		{[]servertest.Rule{{Path: send, Fault: servertest.HangAfter()}}, 1},
		{[]servertest.Rule{{Path: "/upload", Fault: servertest.HangAfter()}}, 1},
		{[]servertest.Rule{both, {Path: send, Fault: servertest.Hang()}}, len(apps) + 1},
		{[]servertest.Rule{both, {Path: send, Fault: servertest.HangAfter()}}, len(apps) + 1},
	} {
		s.proxy.Script(stage.rules...)
		path := stage.rules[len(stage.rules)-1].Path
		wanted := len(s.proxy.Records(path)) + stage.requests
		text := object{"message": strings.Repeat(fmt.Sprintf("stage %d\n", i), 10_000), "extras": object{"client::display": object{"contentType": "text/plain"}}}
		var ids []int64
		for _, a := range apps {
			ids = append(ids, s.post(a, text))
		}
		s.eventually(fmt.Sprint("stage ", i), func() bool { return len(s.proxy.Records(path)) >= wanted })
		s.kill()
		s.proxy.Script()
		s.start()
		for _, id := range ids {
			s.becomes(id, "sent")
		}
		want = append(want, fmt.Sprint("stage ", i), "message.txt")
		s.eventually("the files", func() bool { return !s.pending() })
	}
	first := func(bodies []string) (lines []string) {
		for _, body := range bodies {
			line, _, _ := strings.Cut(body, "\n")
			lines = append(lines, line)
		}
		return lines
	}
	s.eventually("all is read", func() bool { return len(reader.Bodies(room)) >= len(want) })
	for _, got := range [][]string{first(reader.Bodies(room)), first(s.bodies(apps[1].room))} {
		if !slices.Equal(got, want) {
			t.Errorf("a room has %q, want %q", got, want)
		}
	}
	if n := reader.Unread(room); n != 0 {
		t.Errorf("%d events cannot be read", n)
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
