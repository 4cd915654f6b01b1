package delivery_test

import (
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
)

// A room is made while the service does not run, and nothing else happens: what waits, waits.
func TestEnsureRoom_NotRunning_DeliversNothing(t *testing.T) {
	r := relaytest.NewRig(t)
	app := r.NewApp("a", "")
	id := r.Post(app.Token, "x")
	for range 2 {
		got, err := r.EnsureRoom(ctx, r.Admin, app.Application.ID)
		if err != nil || got.RoomID != "!made1:hs" || got.Room != "!made1:hs" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if m := r.Stored(id); m.State != post.StateQueued || len(r.HS.Times("!made1:hs")) != 0 {
		t.Errorf("the message is %s after %d attempts", m.State, len(r.HS.Times("!made1:hs")))
	}
	r.HS.Uninvite = &matrix.SendError{Class: matrix.ClassBlock, Reason: "no such user"}
	if _, err := r.EnsureRoom(ctx, r.Admin, r.NewApp("b", "").Application.ID); refusal.KindOf(err) != refusal.KindConflict {
		t.Errorf("refused: %v", err)
	}
	r.HS.Uninvite = &matrix.SendError{Class: matrix.ClassAway, Reason: "away"}
	if _, err := r.EnsureRoom(ctx, r.Admin, r.NewApp("c", "").Application.ID); refusal.KindOf(err) != refusal.KindUnavailable {
		t.Errorf("away: %v", err)
	}
	if _, err := r.EnsureRoom(ctx, account.Principal{UserID: 7}, app.Application.ID); refusal.KindOf(err) != refusal.KindNotFound {
		t.Errorf("somebody else: %v", err)
	}
}
