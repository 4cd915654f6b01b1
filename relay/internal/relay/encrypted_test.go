package relay

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
)

// withEncryption lets the fake homeserver encrypt.
func withEncryption(o *Options) { o.Encrypt = o.Sender.(*homeserver) }

// What was encrypted for a room and a device is of no use in another room or from another device: if it did not arrive, the message
// is encrypted anew.
func TestEncryptedAnewForAnotherRoomOrDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*rig)
		room   string
		want   string
	}{
		"room":   {func(r *rig) { r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) }, "!new:hs", "for !new:hs DEV"},
		"device": {func(r *rig) { r.hs.mu.Lock(); r.hs.device = "DEV2"; r.hs.mu.Unlock() }, "!old:hs", "for !old:hs DEV2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, withEncryption)
				r.hs.sealed = map[string]bool{"!old:hs": true, "!new:hs": true}
				r.hs.script = func(_ Outgoing, n int) *answer {
					if n > 1 {
						return nil
					}
					time.AfterFunc(time.Millisecond, func() { tt.change(r) })
					return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}}
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!old:hs").Token, "x")
				time.Sleep(time.Hour)
				if m := r.message(id); m.State != StateSent {
					t.Errorf("it is %s, %q", m.State, m.Error)
				}
				if got := r.hs.bodies(tt.room); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("in the room: %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// A room becomes encrypted behind the first event of a long message: its file is encrypted, too, and uploaded in no other way.
func TestFileInRoomThatBecomesEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withEncryption)
		r.hs.script = func(Outgoing, int) *answer {
			r.hs.mu.Lock()
			defer r.hs.mu.Unlock()
			r.hs.sealed = map[string]bool{"!a:hs": true}
			return nil
		}
		r.run()
		synctest.Wait()
		id := r.send(r.app("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
		time.Sleep(time.Hour)
		if m := r.message(id); m.State != StateSent || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		r.hs.mu.Lock()
		defer r.hs.mu.Unlock()
		if len(r.hs.files) != 1 || strings.Contains(r.hs.files[0], "long long") {
			t.Errorf("%d files are uploaded, or one in the clear", len(r.hs.files))
		}
		if events := r.hs.events["!a:hs"]; len(events) != 2 || events[1].body != "for !a:hs DEV" {
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
				r := newRig(t, withEncryption)
				r.hs.sealed = map[string]bool{"!a:hs": true}
				attempts := 0
				r.hs.refuse = func() error {
					if attempts++; attempts > 1 {
						return nil
					}
					if !tt.late {
						r.delivery.Load().Handle(tt.heard)
					}
					return &SendError{Class: matrix.ClassEncrypted, Reason: "Nobody can read."}
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!a:hs").Token, "x")
				time.Sleep(time.Second)
				if tt.late {
					if m := r.message(id); m.State != StateBlocked || m.Error != "Nobody can read." {
						t.Errorf("it is %s, %q", m.State, m.Error)
					}
					r.delivery.Load().Handle(tt.heard)
					time.Sleep(time.Second)
				}
				if m := r.message(id); m.State != StateSent || m.Error != "" {
					t.Errorf("in the end it is %s, %q", m.State, m.Error)
				}
				if rooms, err := r.Rooms(ctx, r.admin); err != nil || len(rooms) != 1 || rooms[0].Blocked != "" {
					t.Errorf("the rooms in the end: %+v, %v", rooms, err)
				}
			})
		})
	}
}
