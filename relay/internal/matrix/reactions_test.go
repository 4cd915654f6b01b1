package matrix

import "testing"

// Reactions of others are read from the homeserver.
func TestReactions(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	event, err := w.send(room, "t1", "one")
	w.must(err)
	react := func(key string) {
		t.Helper()
		_, err := w.owner.Send(w.ctx, room, EventReaction, map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": event, "key": key}})
		w.must(err)
	}
	_, err = w.bot.Send(w.ctx, Outgoing{RoomID: room, TxnID: "t2", EventType: EventReaction, Content: []byte(`{"m.relates_to":{"rel_type":"m.annotation","event_id":"` + event + `","key":"✅"}}`)})
	w.must(err)
	react("✅")
	react("👍")
	all, err := w.bot.Reactions(w.ctx, room, event)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, r := range all {
		if r.Room != room || r.Event != event || r.Sender != w.owner.ID || r.Key != "✅" && r.Key != "👍" {
			t.Errorf("%+v", r)
		}
	}
	if none, err := w.bot.Reactions(w.ctx, room, "$nothing"); err == nil && len(none) > 0 {
		t.Errorf("%+v", none)
	}
}
