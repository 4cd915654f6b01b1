package matrix

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
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
			c, err := New(Options{Homeserver: "http://127.0.0.1:1", Username: "bot", Password: "p", Store: newStore(t), Log: zap.NewNop()})
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

// A reaction is heard in rooms of both kinds, but not the bot's own, nor another event that relates to one.
func TestReaction(t *testing.T) {
	const relates = `{"m.relates_to":{"rel_type":"m.annotation","event_id":"$e","key":"✅"}}`
	for name, tt := range map[string]struct {
		sender, kind, content string
		want                  bool
	}{
		"in the clear": {"@a:hs", "m.reaction", relates, true},
		"encrypted":    {"@a:hs", "m.room.encrypted", relates, true},
		"the bot's":    {"@bot:hs", "m.reaction", relates, false},
		"a message":    {"@a:hs", "m.room.message", relates, false},
		"an edit":      {"@a:hs", "m.reaction", `{"m.relates_to":{"rel_type":"m.replace","event_id":"$e","key":"m.annotation"}}`, false},
		"broken":       {"@a:hs", "m.reaction", `{"m.relates_to":{"rel_type":"m.annotation","event_id":5}}`, false},
	} {
		e := &event.Event{Type: event.Type{Type: tt.kind}, Sender: id.UserID(tt.sender), Content: event.Content{VeryRaw: []byte(tt.content)}}
		got, ok := takeReaction("@bot:hs", "!r:hs", e)
		if ok != tt.want || ok && got != (Reaction{"!r:hs", "$e", "@a:hs", "✅"}) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}
