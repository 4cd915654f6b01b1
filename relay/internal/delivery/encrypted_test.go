package delivery_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// withEncryption lets the fake homeserver encrypt.
func withEncryption(o *service.Options) {
	o.Delivery.Encrypt = o.Delivery.Sender.(*relaytest.Homeserver)
}

// What was encrypted for a room and a device is of no use in another room or from another device: if it did not arrive, the message
// is encrypted again.
func TestEncryptedAnewForAnotherRoomOrDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*relaytest.Rig)
		room   string
		want   string
	}{
		"room":   {func(r *relaytest.Rig) { r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) }, "!new:hs", "for !new:hs DEV"},
		"device": {func(r *relaytest.Rig) { r.HS.Do(func() { r.HS.DeviceID = "DEV2" }) }, "!old:hs", "for !old:hs DEV2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t, withEncryption)
				r.HS.Sealed = map[string]bool{"!old:hs": true, "!new:hs": true}
				r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
					if n > 1 {
						return nil
					}
					time.AfterFunc(time.Millisecond, func() { tt.change(r) })
					return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}}
				}
				r.Start()
				synctest.Wait()
				id := r.Post(r.NewApp("a", "!old:hs").Token, "x")
				time.Sleep(time.Hour)
				if m := r.Stored(id); m.State != post.StateSent {
					t.Errorf("it is %s, %q", m.State, m.Error)
				}
				if got := r.HS.Bodies(tt.room); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("in the room: %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// A homeserver, or who may upgrade a room, can't have the relay send in the clear what went to an encrypted room.
func TestEncryptedRoom_UpgradedToOneThatIsNot_StaysEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withEncryption)
		r.HS.Sealed = map[string]bool{"!old:hs": true}
		r.Start()
		token := r.NewApp("a", "!old:hs").Token
		r.Await(r.Post(token, "x"), post.StateSent)
		r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		r.Await(r.Post(token, "y"), post.StateSent)
		if got := r.HS.Bodies("!new:hs"); !slices.Equal(got, []string{"for !new:hs DEV"}) {
			t.Errorf("in the room: %q", got)
		}
	})
}

// A room becomes encrypted behind the event of a long message: its file is encrypted, too, and uploaded in no other way.
func TestFileInRoomThatBecomesEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withEncryption)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			r.HS.Mu.Lock()
			defer r.HS.Mu.Unlock()
			r.HS.Sealed = map[string]bool{"!a:hs": true}
			return nil
		}
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
		time.Sleep(time.Hour)
		if m := r.Stored(id); m.State != post.StateSent || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		r.HS.Mu.Lock()
		defer r.HS.Mu.Unlock()
		if len(r.HS.Files) != 1 || strings.Contains(r.HS.Files[0], "long long") {
			t.Errorf("%d files are uploaded, or one in the clear", len(r.HS.Files))
		}
		if events := r.HS.Events["!a:hs"]; len(events) != 2 || events[1].Body != "for !a:hs DEV" {
			t.Errorf("in the room are %d events", len(events))
		}
	})
}

// A message to a room where nobody has a device waits until somebody has, or who has one comes in, also if that is heard while the attempt that finds none
// is under way.
func TestEncryptedRoomWithoutReaders(t *testing.T) {
	for name, tt := range map[string]struct {
		late  bool
		heard matrix.Event
	}{
		"a device after the attempt":  {true, matrix.DevicesChanged{}},
		"a device during the attempt": {false, matrix.DevicesChanged{}},
		"a member after the attempt":  {true, matrix.ReadersChanged{Room: "!a:hs"}},
		"a member during the attempt": {false, matrix.ReadersChanged{Room: "!a:hs"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t, withEncryption)
				r.HS.Sealed = map[string]bool{"!a:hs": true}
				attempts := 0
				r.HS.Refuse = func() error {
					if attempts++; attempts > 1 {
						return nil
					}
					if !tt.late {
						r.Delivery().Handle(tt.heard)
					}
					return &matrix.SendError{Class: matrix.ClassEncrypted, Reason: "Nobody can read."}
				}
				r.Start()
				synctest.Wait()
				id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
				time.Sleep(time.Second)
				if tt.late {
					if m := r.Stored(id); m.State != post.StateBlocked || m.Error != "Nobody can read." {
						t.Errorf("it is %s, %q", m.State, m.Error)
					}
					r.Delivery().Handle(tt.heard)
					time.Sleep(time.Second)
				}
				if m := r.Stored(id); m.State != post.StateSent || m.Error != "" {
					t.Errorf("in the end it is %s, %q", m.State, m.Error)
				}
				if rooms, err := r.Rooms(ctx, r.Admin); err != nil || len(rooms) != 1 || rooms[0].Blocked != "" {
					t.Errorf("the rooms in the end: %+v, %v", rooms, err)
				}
			})
		})
	}
}
