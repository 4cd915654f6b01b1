//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/encryptedtest"
)

// shows waits until a web client shows so many events of a room, without a warning on any, and returns them.
func (s *site) shows(client *encryptedtest.WebClient, room string, n int) (all []encryptedtest.Shown) {
	s.Helper()
	failed := func(e encryptedtest.Shown) bool { return e.Failed != "" }
	for end := time.Now().Add(30 * time.Second); len(all) < n || slices.ContainsFunc(all, failed); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("the web client shows %v, want %d events", all, n)
		}
		all = client.Events(room)
	}
	for _, e := range all {
		if !e.Encrypted || e.Shield != 0 && !e.Removed {
			s.Errorf("the web client shows with a warning: %s", e)
		}
	}
	return all
}

// A room that a person makes in an ordinary client as it comes, with the bot invited, shows what is posted over the API: text,
// Markdown, a file and a removal, without a warning, by a device that its owner has verified.
func TestEncrypted_WebClient(t *testing.T) {
	s := newSite(t)
	s.start()
	client := encryptedtest.NewWebClient(t, homeserver.URL, s.name+"owner", s.name+"owner-password")
	client.NewIdentity()
	client.Start()
	room := client.CreateRoom(s.botID)
	a := s.application("web", room)
	s.becomes(s.say(a, "secret one"), "sent")
	marked := s.becomes(s.post(a, object{"title": "Backup", "message": "**secret two**", "priority": 1}), "sent")
	long := strings.Repeat("secret line that is long enough to need a file\n", 3_000)
	s.becomes(s.post(a, object{"message": long, "content_type": "text/plain"}), "sent")

	all := s.shows(client, room, 4)
	if formatted, _ := all[1].Content["formatted_body"].(string); all[0].Body() != "secret one" || !strings.Contains(formatted, "<strong>secret two</strong>") {
		t.Errorf("the web client shows %s and %v", all[0], all[1].Content)
	}
	file := all[len(all)-1]
	if content := client.File(room, file.ID); strings.TrimSpace(string(content)) != strings.TrimSpace(long) {
		t.Errorf("the file of %s has %d bytes, want %d", file, len(content), len(long))
	}
	sender := s.sealed(room)[0].Field("device_id")
	if d := client.Device(s.botID, sender); !d.Known || !d.Signed || d.Changed {
		t.Errorf("the bot's device %s is %+v", sender, d)
	}
	s.ask(http.MethodDelete, fmt.Sprintf("/message/%d", marked.id()), nil)
	s.eventually("the web client shows the removal", func() bool {
		return slices.ContainsFunc(client.Events(room), func(e encryptedtest.Shown) bool { return e.ID == all[1].ID && e.Removed })
	})
	s.noPlainText("secret one", "secret two", "secret line")
}
