package relay

import "testing"

// A room is made while the service does not run, and nothing else happens: what waits, waits.
func TestEnsureRoom_NotRunning_DeliversNothing(t *testing.T) {
	r := newRig(t)
	app := r.app("a", "")
	id := r.send(app.Token, "x")
	for range 2 {
		got, err := r.EnsureRoom(ctx, r.admin, app.Application.ID)
		if err != nil || got.RoomID != "!made1:hs" || got.Room != "!made1:hs" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if m := r.message(id); m.State != StateQueued || len(r.hs.times("!made1:hs")) != 0 {
		t.Errorf("the message is %s after %d attempts", m.State, len(r.hs.times("!made1:hs")))
	}
	r.hs.uninvite = &SendError{Class: ClassBlock, Reason: "no such user"}
	if _, err := r.EnsureRoom(ctx, r.admin, r.app("b", "").Application.ID); KindOf(err) != KindConflict {
		t.Errorf("refused: %v", err)
	}
	r.hs.uninvite = &SendError{Class: ClassAway, Reason: "away"}
	if _, err := r.EnsureRoom(ctx, r.admin, r.app("c", "").Application.ID); KindOf(err) != KindUnavailable {
		t.Errorf("away: %v", err)
	}
	if _, err := r.EnsureRoom(ctx, Viewer{UserID: 7}, app.Application.ID); KindOf(err) != KindNotFound {
		t.Errorf("somebody else: %v", err)
	}
}
