package matrix

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
)

// A new member may read what waits in a room, and a homeserver need not announce the devices of a person who shares another
// encrypted room with the bot. The same holds for people who may read the history from now on.
func TestReadersChange(t *testing.T) {
	const room, me = "!room:hs", "@bot:hs"
	for name, tt := range map[string]struct {
		kind, key string
		want      bool
	}{
		"a member":       {"m.room.member", "@owner:hs", true},
		"the visibility": {"m.room.history_visibility", "", true},
		"the bot itself": {"m.room.member", me, false},
		"the name":       {"m.room.name", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{Homeserver: "http://127.0.0.1:1", Username: "bot", Password: "p", State: newStore(t), Joins: newStore(t), Log: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			e := &event.Event{Type: event.Type{Type: tt.kind, Class: event.StateEventType}, StateKey: &tt.key}
			_, heard := c.takeJoin(t.Context(), me, room, false, &mautrix.SyncJoinedRoom{Timeline: mautrix.SyncTimeline{SyncEventsList: mautrix.SyncEventsList{Events: []*event.Event{e}}}})
			if got := slices.Contains(heard, Event(ReadersChanged{room})); got != tt.want {
				t.Errorf("heard is %v", heard)
			}
		})
	}
}
