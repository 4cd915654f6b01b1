//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/servertest"
)

// A room that the relay makes is encrypted. A message waits until its owner has a device, is read there, and comes from a device
// that clients trust: without a word from the person, and after the bot was verified. The bot's administrator has the recovery key,
// and there is one, however often the relay starts.
func TestEncrypted_RoomOfTheRelays(t *testing.T) {
	s := newSite(t)
	s.encryptNew = true
	s.start()
	a := s.application("fresh", "")
	first := s.say(a, "for whoever comes")
	s.wantReason(s.becomes(first, "blocked"), "Nobody in the room has a device")
	reader := servertest.NewReader(t, homeserver.URL, s.name+"owner", s.name+"owner-password")
	s.becomes(first, "sent")
	s.reads(reader, a.room, "for whoever comes")
	s.must(reader.Verify(s.ctx, s.name+"owner-password", id.UserID(s.botID)))

	key := strings.TrimSpace(s.says(0, nil, "recovery-key", "--config", s.configure()))
	s.stop()
	if again := strings.TrimSpace(s.says(0, nil, "recovery-key", "--config", s.configure())); again != key {
		t.Errorf("the recovery key is %d characters while the relay runs, and others later", len(key))
	}
	s.start()
	s.becomes(s.say(a, "secret two"), "sent")
	s.reads(reader, a.room, "for whoever comes", "secret two")
	for i, want := range []id.TrustState{id.TrustStateCrossSignedTOFU, id.TrustStateCrossSignedVerified} {
		if got := reader.Events(a.room)[i].Trust; got != want {
			t.Errorf("message %d comes from a device that is %v, want %v", i, got, want)
		}
	}
	s.noPlainText("for whoever comes", "secret two", key)
	kept := 0
	for _, r := range s.proxy.Records("/account_data/m.secret_storage.key.") {
		if r.Method == http.MethodPut {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d recovery keys are made", kept)
	}
	other := servertest.NewReader(t, homeserver.URL, s.name+"bot", botPassword) // the bot's administrator, in another client
	s.must(other.Machine.VerifyWithRecoveryKey(s.ctx, key))
}

// An encrypted room is named as such, and the bot's device can be compared, at a desk and on a phone.
func TestEncryptedRoomInBrowser(t *testing.T) {
	s := newSite(t)
	s.encryptNew = true
	s.start()
	room, reader := s.sealedRoom()
	b := newBrowser(t, s.url)
	b.login("admin", adminPassword)
	b.reloads("/ui/applications/new", "· encrypted")
	b.sees("The bot creates it, encrypted, and invites you. Accept the invitation in your Matrix client.")
	b.fill("#name", "private")
	b.click("#target-other")
	b.fill("input[name=room_id]", room)
	b.click("form.card button.primary")
	b.sees("may write there")
	b.get("/ui/applications/1")
	b.click("form[action$=test] button")
	s.eventually("the test message is read", func() bool { return len(reader.Bodies(room)) == 1 })
	for _, width := range []int64{1280, 375} {
		b.window(width, 800, "light")
		b.get("/ui/rooms?check")
		b.sees("which is encrypted, and may write there")
		b.sees("is verified by its identity")
		b.sees("Fingerprint")
		s.wantNoFaults(b, fmt.Sprintf("/ui/rooms at %d", width))
	}
	if got := s.bodies(room); len(got) != 0 {
		t.Errorf("in the clear: %q", got)
	}
}
