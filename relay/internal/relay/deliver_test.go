package relay

import (
	"fmt"
	"slices"
	"testing"
)

func TestMessagesArriveInOrder(t *testing.T) {
	r := newRig(t)
	r.run()
	a, b := r.app("a", "!a:hs"), r.app("b", "!b:hs")
	var last [2]int64
	var want [2][]string
	for i := range 200 {
		text := fmt.Sprint("message ", i)
		app := []IssuedToken{a, b}[i%2]
		last[i%2] = r.send(app.Token, text)
		want[i%2] = append(want[i%2], text)
	}
	for i, room := range []string{"!a:hs", "!b:hs"} {
		m := r.await(last[i], StateSent)
		if m.EventID == "" || m.Attempts != 1 || m.SentAt.IsZero() {
			t.Errorf("sent message: %+v", m)
		}
		if got := r.hs.bodies(room); !slices.Equal(got, want[i]) {
			t.Errorf("room %s has %d events, want %d in order:\n%q", room, len(got), len(want[i]), got)
		}
	}
	if r.hs.tooMany {
		t.Error("two events were in flight in one room")
	}
	if n := r.d.depth.Load(); n != 0 {
		t.Errorf("%d messages wait at the end", n)
	}
}
