//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// told returns what a device has read in a room: each event's relation, if it has one, and the last line of its text as it is shown.
func told(reader *servertest.Reader, room string) (all []string) {
	for _, e := range reader.Events(room) {
		relation, _ := e.Content["m.relates_to"].(map[string]any)
		shown := e.Content
		if edit, ok := shown["m.new_content"].(map[string]any); ok {
			shown = edit
		}
		kind, _ := relation["rel_type"].(string)
		text, _ := shown["body"].(string)
		if e.Type == "m.reaction" {
			text, _ = relation["key"].(string)
		}
		all = append(all, strings.TrimSpace(kind+" "+text[strings.LastIndex(text, "\n")+1:]))
	}
	return all
}

// tells waits until a device has read exactly this in a room.
func (s *site) tells(reader *servertest.Reader, room string, want ...string) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		got := told(reader, room)
		if slices.Equal(got, want) && reader.Unread(room) == 0 {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("read: %q\nwant: %q\n%d events cannot be read", got, want, reader.Unread(room))
		}
	}
}

// states returns what a device has read in a room: a message, edit, reply or reaction, and the first of the words that it holds.
// Events that hold none are left out.
func states(reader *servertest.Reader, room string, words ...string) (all []string) {
	for _, e := range reader.Events(room) {
		relation, _ := e.Content["m.relates_to"].(map[string]any)
		kind, _ := relation["rel_type"].(string)
		what := map[string]string{"": "message", "m.replace": "edit", "m.thread": "reply", "m.annotation": "reaction"}[kind]
		text, _ := e.Content["body"].(string)
		if edit, ok := e.Content["m.new_content"].(map[string]any); ok {
			text, _ = edit["body"].(string)
		}
		if key, ok := relation["key"].(string); ok {
			text = key
		}
		if i := slices.IndexFunc(words, func(word string) bool { return strings.Contains(text, word) }); i >= 0 {
			all = append(all, what+" "+words[i])
		}
	}
	return all
}

// runs runs a program until the test ends.
func (s *site) runs(program string, args ...string) {
	s.Helper()
	programtest.Launch(s.T, exec.Command(programtest.Tool(s.T, program), args...))
}

// In a plain and an encrypted room an alert is one message with its edits, a thread stays one, and a reaction ends the reminders of an
// alarm, although the relay is killed after each step.
func TestAlerts(t *testing.T) {
	s := newSite(t)
	s.start()
	sealed, reader := s.sealedRoom()
	plain := s.ownersRoom(nil)
	again := func() { s.kill(); s.start() }
	rooms := map[string]app{plain: s.application("plain", plain), sealed: s.application("sealed", sealed)}
	each := func(fields object) (ids map[string]int64) {
		ids = map[string]int64{}
		for room, a := range rooms {
			ids[room] = s.post(a, fields)
		}
		return ids
	}
	for _, fields := range []object{
		{"key": "disk", "message": "80 percent"},
		{"key": "disk", "message": "80 percent"},
		{"key": "disk", "message": "90 percent"},
		{"key": "disk", "message": "10 percent", "resolved": true},
		{"thread": "deploy", "message": "begins"},
		{"thread": "deploy", "message": "ends"},
	} {
		for _, id := range each(fields) {
			s.eventually("all of it is sent", func() bool { return s.settled(id) })
		}
		again()
	}
	want := []string{"80 percent", "m.replace 90 percent", "m.replace 10 percent", "begins", "m.thread ends"}
	for room := range rooms {
		s.tells(reader, room, want...)
	}
	ids := each(object{"priority": 2, "retry": 30, "expire": 600, "message": "down"})
	want = append(want, "down", "m.annotation ✅")
	for room := range rooms {
		s.tells(reader, room, want...)
	}
	again()
	want = append(want, "m.thread Nobody has acknowledged this yet. React with ✅ to acknowledge it.")
	for room := range rooms {
		s.tells(reader, room, want...)
	}
	for room, id := range ids {
		event := s.message(id).text("event_id")
		_, err := s.owner.Send(s.ctx, room, "m.reaction", map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": event, "key": "✅\uFE0F"}})
		s.must(err)
	}
	want = append(want, "m.annotation ✅\uFE0F", "m.replace down")
	for room, id := range ids {
		s.tells(reader, room, want...)
		m := s.message(id)
		if state, _ := m["alert"].(map[string]any); state["acknowledged_by"] != s.owner.ID || state["next_reminder_at"] != nil {
			t.Errorf("%v", m)
		}
	}
	if got := s.bodies(sealed); len(got) != 0 {
		t.Errorf("in the clear: %q", got)
	}
}

// settled reports whether a message and what followed it are sent.
func (s *site) settled(id int64) bool {
	m := s.message(id)
	status, out := s.ask(http.MethodGet, fmt.Sprintf("/message/%d/history", id), nil)
	if status != http.StatusOK {
		s.Fatalf("history: %d %v", status, out)
	}
	history, _ := out["history"].([]any)
	return m.text("status") == "sent" && !slices.ContainsFunc(history, func(e any) bool { return object(e.(map[string]any)).text("status") != "sent" })
}

// A Pushover client gets a receipt, by which it learns of the acknowledgement and ends the reminders.
func TestAlerts_Receipts(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("pushover", "")
	none := func(*http.Request) {}
	for _, end := range []string{"acknowledged", "cancelled"} {
		status, out := s.request(http.MethodPost, "/1/messages.json", object{"token": a.token, "user": "u", "message": "down", "priority": 2, "retry": 30, "expire": 3600}, none)
		receipt := out.text("receipt")
		if status != http.StatusOK || len(receipt) != 30 {
			t.Fatalf("%d %v", status, out)
		}
		path := "/1/receipts/" + receipt
		if status, out := s.request(http.MethodGet, path+".json?token="+a.token, nil, none); status != http.StatusOK || out["acknowledged"] != 0.0 || out["expired"] != 0.0 {
			t.Fatalf("%d %v", status, out)
		}
		if end == "acknowledged" {
			var id int64
			_, err := fmt.Sscanf(receipt, "r%d", &id)
			s.must(err)
			event := s.becomes(id, "sent").text("event_id")
			_, err = s.owner.Send(s.ctx, a.room, "m.reaction", map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": event, "key": "✅"}})
			s.must(err)
			s.eventually("the receipt has it", func() bool {
				_, out := s.request(http.MethodGet, path+".json?token="+a.token, nil, none)
				return out["acknowledged"] == 1.0 && out["acknowledged_by"] == s.owner.ID
			})
			continue
		}
		if status, out := s.request(http.MethodPost, path+"/cancel.json", object{"token": a.token}, none); status != http.StatusOK || out["status"] != 1.0 {
			t.Errorf("%d %v", status, out)
		}
		if _, out := s.request(http.MethodGet, path+".json?token="+a.token, nil, none); out["expired"] != 1.0 || out["acknowledged"] != 0.0 {
			t.Errorf("%v", out)
		}
	}
	if status, out := s.request(http.MethodGet, "/1/receipts/r"+strings.Repeat("0", 28)+"9.json?token="+a.token, nil, none); status != http.StatusNotFound || out["status"] != 0.0 {
		t.Errorf("%d %v", status, out)
	}
}

// Alertmanager's alert goes up and down in a plain and an encrypted room. The delivering relay is killed at each step, and another one
// goes on: one message, its edits, nothing twice.
func TestFull_Alerts_AlertmanagerAndSeveralRelays(t *testing.T) {
	f := newFleet(t, homeserver.URL, 3)
	f.pickleKey = "a key that the relays of this test share"
	var err error
	f.owner, err = homeserver.NewUser(f.ctx, f.name+"owner", false)
	f.must(err)
	f.must(homeserver.CreateUser(f.ctx, f.name+"bot", botPassword, false))
	f.ownerID = f.owner.ID
	sealed, reader := f.sealedRoom()
	plain := f.ownersRoom(nil)
	for _, m := range f.relays {
		m.start()
	}
	f.delivers(nil)
	one, two := f.application("plain", plain), f.application("sealed", sealed)
	config := filepath.Join(f.dir, "alertmanager.yml")
	f.must(os.WriteFile(config, fmt.Appendf(nil, `route: {receiver: all, group_wait: 0s, group_interval: 1s, repeat_interval: 1s}
receivers:
- name: all
  webhook_configs: [{url: "%s/hook/alertmanager/%s"}, {url: "%s/hook/alertmanager/%s"}]
`, f.url, one.token, f.url, two.token), 0o600))
	addr := programtest.FreeAddr(t)
	f.runs("prometheus-alertmanager", "--config.file="+config, "--storage.path="+f.dir, "--web.listen-address="+addr, "--cluster.listen-address=")
	fire := func(description, ends string) {
		t.Helper()
		alert := `[{"labels":{"alertname":"DiskFull","severity":"warning"},"annotations":{"summary":"The disk is full","description":"` + description + `"}` + ends + `}]`
		f.eventually("Alertmanager takes the alert", func() bool {
			req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, "http://"+addr+"/api/v2/alerts", strings.NewReader(alert))
			f.must(err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := f.http.Do(req)
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	shows := func(want ...string) {
		t.Helper()
		for _, room := range []string{plain, sealed} {
			f.within(2*time.Minute, "the rooms show "+want[len(want)-1], func() bool {
				return slices.Equal(states(reader, room, "Resolved after", "four left", "two left"), want)
			})
		}
	}
	lost := f.delivers(nil)
	fire("four left", "")
	shows("message four left")
	lost.kill()
	fire("two left", "")
	f.delivers(lost)
	shows("message four left", "edit two left")
	lost.start()
	next := f.delivers(nil)
	next.kill()
	fire("two left", `,"endsAt":"`+time.Now().UTC().Format(time.RFC3339)+`"`)
	f.delivers(next)
	shows("message four left", "edit two left", "edit Resolved after")
	time.Sleep(3 * time.Second) // what Alertmanager repeats
	shows("message four left", "edit two left", "edit Resolved after")
}
