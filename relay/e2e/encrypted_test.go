//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// sealedRoom is a room of the owner's as today's clients make it, with a device that reads there.
func (s *site) sealedRoom() (room string, reader *servertest.Reader) {
	s.Helper()
	reader = servertest.NewReader(s.T, homeserver.URL, s.name+"owner", s.name+"owner-password")
	return s.ownersRoom(map[string]any{"initial_state": []map[string]any{{
		"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "rotation_period_msgs": 20},
	}}}), reader
}

// reads waits until a device has read texts, in order and each once.
func (s *site) reads(reader *servertest.Reader, room string, want ...string) {
	s.Helper()
	for end := time.Now().Add(3 * time.Minute); !slices.Equal(reader.Bodies(room), want); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("read: %q, want %q; %d events cannot be read", reader.Bodies(room), want, reader.Unread(room))
		}
	}
	if n := reader.Unread(room); n != 0 {
		s.Errorf("%d events cannot be read", n)
	}
}

// noPlainText holds what went over the wire against what must not be seen there.
func (s *site) noPlainText(words ...string) {
	s.Helper()
	for _, r := range s.proxy.Records("/") {
		for _, word := range words {
			if strings.Contains(r.Body, word) {
				s.Errorf("plain text on the wire: %s %s", r.Method, r.Path)
			}
		}
	}
}

// Text, markup, a file, a removal: all of it reaches a room as a person's client makes it, and nothing can be read on the way.
func TestEncrypted_EverythingArrives(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a := s.application("sealed", room)
	s.becomes(s.say(a, "secret one"), "sent")
	marked := s.becomes(s.post(a, object{"title": "Backup", "message": "**secret two**", "priority": 1}), "sent")
	long := strings.Repeat("secret line that is long enough to need a file\n", 12_000)
	s.becomes(s.post(a, object{"message": long}), "sent")
	s.eventually("the file is read", func() bool {
		events := reader.Events(room)
		return len(events) > 0 && events[len(events)-1].Content["msgtype"] == "m.file"
	})
	events := reader.Events(room)
	if formatted, _ := events[1].Content["formatted_body"].(string); !strings.Contains(formatted, "<strong>secret two</strong>") {
		t.Errorf("the second event: %v", events[1].Content)
	}
	text, err := reader.File(s.ctx, events[len(events)-1])
	if err != nil || strings.TrimSpace(string(text)) != strings.TrimSpace(long) {
		t.Errorf("the file has %d bytes, want %d; %v", len(text), len(long), err)
	}
	s.ask(http.MethodDelete, fmt.Sprintf("/message/%d", marked.id()), nil)
	s.eventually("the event is removed", func() bool { return len(s.sealed(room)) == len(events)-1 })
	if n := reader.Unread(room); n != 0 {
		t.Errorf("%d events cannot be read", n)
	}
	s.noPlainText("secret one", "secret two", "secret line")
	if got := s.bodies(room); len(got) != 0 {
		t.Errorf("in the clear: %q", got)
	}
}

// A room becomes encrypted while a message waits, and between two messages: what is sent from then on is encrypted.
func TestEncrypted_RoomBecomesEncrypted(t *testing.T) {
	s := newSite(t)
	s.start()
	reader := servertest.NewReader(t, homeserver.URL, s.name+"owner", s.name+"owner-password")
	a := s.application("sealed later", "")
	s.becomes(s.say(a, "open"), "sent")
	s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/", Fault: servertest.Matrix(500, "M_UNKNOWN")}) // tried in the clear, and not taken
	waits := s.say(a, "tried in the clear")
	s.becomes(waits, "retry_wait")
	s.stop()
	s.must(s.owner.SetState(s.ctx, a.room, "m.room.encryption", map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}))
	s.proxy.Script()
	s.start()
	s.becomes(waits, "sent")
	s.becomes(s.say(a, "hidden"), "sent")
	s.reads(reader, a.room, "open", "tried in the clear", "hidden")
	s.noPlainText("hidden")
	s.wantBodies(a.room, "open")
}

// A database restored from a backup begins new sessions: everybody reads what is sent from then on.
func TestEncrypted_RestoredBackup(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a := s.application("sealed", room)
	s.becomes(s.say(a, "one"), "sent")
	s.stop()
	database := filepath.Join(s.dir, "relay.db")
	backup := map[string][]byte{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(database + end)
		s.must(err)
		backup[end] = b
	}
	s.start()
	s.becomes(s.say(a, "two"), "sent")
	s.stop()
	_ = os.Remove(database + "-shm") // it may not be there
	for end, b := range backup {
		s.must(os.WriteFile(database+end, b, 0o600))
	}
	s.start()
	s.becomes(s.say(a, "three"), "sent")
	s.reads(reader, room, "one", "two", "three")
	log, err := os.ReadFile(filepath.Join(s.dir, "relay.log"))
	s.must(err)
	if !strings.Contains(string(log), "encryption begins with new sessions") {
		t.Error("the log does not say that the database is an old one")
	}
}

// With another pickle key messages to encrypted rooms wait with a sentence, the others go; with the right one all go.
func TestEncrypted_WrongPickleKey(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a, plain := s.application("sealed", room), s.application("plain", "")
	s.becomes(s.say(a, "one"), "sent")
	s.stop()
	file := filepath.Join(s.dir, "relay.db.pickle_key")
	key, err := os.ReadFile(file)
	s.must(err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	s.must(os.WriteFile(file, []byte("another key than the one before, of 50 characters"), 0o600))
	s.start()
	waits := s.say(a, "two")
	s.wantReason(s.becomes(waits, "blocked"), "pickle key")
	s.becomes(s.say(plain, "meanwhile"), "sent")
	s.stop()
	s.must(os.WriteFile(file, key, 0o600))
	s.start()
	s.becomes(waits, "sent")
	s.reads(reader, room, "one", "two")
}

// Of two relays on PostgreSQL the one that delivers is killed, and another one continues in the encrypted room, with the same device.
// Without a key that they share, messages to such rooms wait.
func TestEncrypted_SeveralRelays(t *testing.T) {
	f := newFleet(t, homeserver.URL, 2)
	var err error
	f.owner, err = homeserver.NewUser(f.ctx, f.name+"owner", false)
	f.must(err)
	f.must(homeserver.CreateUser(f.ctx, f.name+"bot", botPassword, false))
	f.ownerID = f.owner.ID
	room, reader := f.sealedRoom()
	first := f.relays[0]
	first.start()
	f.delivers(nil)
	a := f.application("sealed", room)
	waits := f.say(a, "one")
	f.wantReason(f.becomes(waits, "blocked"), "matrix.pickle_key")
	first.kill()
	f.pickleKey = "a key that both relays of this test share"
	for _, m := range f.relays {
		m.start()
	}
	f.becomes(waits, "sent")
	lost := f.delivers(nil)
	f.becomes(f.say(a, "two"), "sent")
	lost.kill()
	f.delivers(lost)
	f.becomes(f.say(a, "three"), "sent")
	f.reads(reader, room, "one", "two", "three")
	if devices := senders(f.sealed(room)); len(devices) != 1 {
		t.Errorf("the events come from the devices %v", devices)
	}
	f.noPlainText("three")
}

// senders are the devices that encrypted events come from.
func senders(events []servertest.SynapseEvent) map[string]bool {
	all := map[string]bool{}
	for _, e := range events {
		all[e.Field("device_id")] = true
	}
	return all
}
