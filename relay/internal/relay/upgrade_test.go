package relay

import (
	"testing"
	"testing/synctest"
	"time"
)

// A message whose answer was lost before its room was upgraded is looked for in the old
// room: the homeserver would take it for another one in the new.
func TestUpgradeBetweenTwoAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, findable bool
		after            time.Duration // the room is replaced; the attempt takes a second
		in               string
		state            State
	}{
		"during the attempt": {true, true, 500 * time.Millisecond, "!old:hs", StateSent},
		"arrived":            {true, true, 1001 * time.Millisecond, "!old:hs", StateSent},
		"did not arrive":     {false, true, 1001 * time.Millisecond, "!new:hs", StateSent},
		"nobody knows":       {false, false, 1001 * time.Millisecond, "", StateAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.findable = tt.findable
				r.hs.script = func(_ Outgoing, n int) *answer {
					if n > 1 {
						return nil
					}
					time.AfterFunc(tt.after, func() { r.RoomReplaced("!old:hs", "!new:hs") })
					return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: tt.stored, delay: time.Second}
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!old:hs").Token, "x")
				time.Sleep(time.Hour)
				m := r.message(id)
				if m.State != tt.state {
					t.Errorf("it is %s, %q", m.State, m.Error)
				}
				for _, room := range []string{"!old:hs", "!new:hs"} {
					if n := len(r.hs.bodies(room)); n != 0 && room != tt.in || n != 1 && room == tt.in {
						t.Errorf("%d are in %s, want it in %q", n, room, tt.in)
					}
				}
			})
		})
	}
}
