package matrix

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"maunium.net/go/mautrix"

	"slipway/relay/internal/encryption"
)

// busyDevice takes answers of sync as slowly as the homeserver lets it: it waits with the one that says that a room is encrypted.
type busyDevice struct {
	taking  chan struct{} // closed when it begins to wait
	release chan struct{}
}

func (d *busyDevice) Take(_ context.Context, answer *mautrix.RespSync, _ bool) error {
	for _, joined := range answer.Rooms.Join {
		for _, e := range joined.Timeline.Events {
			if e.Type.Type == "m.room.encryption" {
				close(d.taking)
				<-d.release
			}
		}
	}
	return nil
}

func (d *busyDevice) Encrypt(context.Context, encryption.Room, string, json.RawMessage, string) ([]byte, error) {
	return nil, errNotOpen
}
func (d *busyDevice) MembersChanged(string)       {}
func (d *busyDevice) Status() encryption.Identity { return encryption.Identity{} }
func (d *busyDevice) Broken() error               { return nil }
func (d *busyDevice) Close()                      {}

// While the device works on an answer of sync that says that a room is encrypted, which takes as long as the homeserver takes for
// its keys, nothing leaves for the room in the clear.
func TestFull_EncryptedWhileDeviceIsBusy(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	w.run(w.bot)
	w.eventually("rooms are followed", w.heard.has("synced"))
	busy := &busyDevice{make(chan struct{}), make(chan struct{})}
	defer close(busy.release)
	w.bot.crypt.mu.Lock()
	w.bot.crypt.device, w.bot.crypt.of = busy, w.bot.session.Load()
	w.bot.crypt.mu.Unlock()
	_, err := w.send(room, "t1", "open")
	w.must(err)
	w.must(w.owner.SetState(w.ctx, room, "m.room.name", map[string]string{"name": "shown"}))
	w.eventually("sync has shown it", w.heard.has("named "+room+" shown")) // from the next answer on the device gets them
	w.must(w.owner.SetState(w.ctx, room, "m.room.encryption", map[string]any{"algorithm": "m.megolm.v1.aes-sha2"}))
	select {
	case <-busy.taking:
	case <-w.ctx.Done():
		t.Fatal("the device gets no answer of sync")
	}
	_, err = w.send(room, "t2", "secret")
	w.wantClass(err, ClassEncrypted)
	w.wantBodies(room, "open")
}

// What was looked at counts for as long as sync is heard, and then for a little while.
func TestRoomsAreKnownWhileSyncIsHeard(t *testing.T) {
	for name, tt := range map[string]struct {
		checked, heard time.Duration // ago
		known          bool
	}{
		"heard":            {time.Hour, time.Second, true},
		"not heard":        {time.Hour, heardFor + time.Minute, false},
		"just looked at":   {time.Second, heardFor + time.Minute, true},
		"looked at before": {checkAge + time.Minute, heardFor + time.Minute, false},
	} {
		r := rooms{known: map[string]*room{"!a:hs": {checked: time.Now().Add(-tt.checked)}}, heard: time.Now().Add(-tt.heard)}
		if _, known := r.get("!a:hs"); known != tt.known {
			t.Errorf("%s: known is %v, want %v", name, known, tt.known)
		}
	}
}
