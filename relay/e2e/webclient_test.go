//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
)

// shows waits until the last event that a web client shows of a room has a text, or, without one, is a file. It returns all events.
func (s *site) shows(client *servertest.WebClient, room, last string) (all []servertest.Shown) {
	s.Helper()
	s.eventually("the web client shows "+last, func() bool {
		all = client.Events(room)
		if len(all) == 0 {
			return false
		}
		e := all[len(all)-1]
		return e.Failed == "" && (e.Body() == last || last == "" && e.Content["msgtype"] == "m.file")
	})
	return all
}

// trusts is shows, and waits until the client shows the last event without a warning: it may have to ask for the sender's keys first.
func (s *site) trusts(client *servertest.WebClient, room, last string) (all []servertest.Shown) {
	s.Helper()
	s.eventually("the web client does not warn of "+last, func() bool {
		all = s.shows(client, room, last)
		e := all[len(all)-1]
		return e.Encrypted && e.Shield == 0
	})
	return all
}

// roomOfOwner is a room that the owner makes in a web client with an identity of their own, with the bot invited.
func (s *site) roomOfOwner() (client *servertest.WebClient, room string) {
	s.Helper()
	client = servertest.NewWebClient(s.T, homeserver.URL, s.name+"owner", s.name+"owner-password")
	client.NewIdentity()
	client.Start()
	return client, client.CreateRoom(s.botID)
}

// A room that a person makes in an ordinary client as it comes, with the bot invited, shows what is posted over the API: text,
// Markdown, a file and a removal, without a warning, by a device that its owner has verified.
func TestEncrypted_WebClient(t *testing.T) {
	s := newSite(t)
	s.start()
	client, room := s.roomOfOwner()
	a := s.application("web", room)
	s.becomes(s.say(a, "secret one"), "sent")
	marked := s.becomes(s.post(a, object{"title": "Backup", "message": "**secret two**", "priority": 1}), "sent")
	long := strings.Repeat("secret line that is long enough to need a file\n", 3_000)
	s.becomes(s.post(a, object{"message": long, "content_type": "text/plain"}), "sent")

	all := s.trusts(client, room, "")
	for _, e := range all {
		if !e.Encrypted || e.Failed != "" || e.Shield != 0 {
			t.Errorf("the web client shows with a warning: %s", e)
		}
	}
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
		return slices.ContainsFunc(client.Events(room), func(e servertest.Shown) bool { return e.ID == all[1].ID && e.Removed })
	})
	s.noPlainText("secret one", "secret two", "secret line")
}
