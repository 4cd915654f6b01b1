package matrix

import (
	"fmt"
	"testing"

	"slipway/relay/internal/store"
)

func offlineClient(t *testing.T, users ...string) *Client {
	t.Helper()
	c, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t", State: newStore(t, users...)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pending(room, inviter string) store.PendingJoin {
	return store.PendingJoin{RoomID: room, Inviter: inviter}
}

func TestPendingJoins_StrangersFillAllPlaces_FriendGetsOne(t *testing.T) {
	c := offlineClient(t, "@friend:hs")
	c.pending.mu.Lock()
	for i := range maxPendingJoins { // as after that many looks at their inviters
		room := fmt.Sprintf("!%d:hs", i)
		c.pending.byRoom[room] = &pendingJoin{PendingJoin: pending(room, "@stranger:hs"), stranger: true}
	}
	c.pending.mu.Unlock()
	c.addPending(t.Context(), pending("!friends:hs", "@friend:hs"))
	if _, ok := c.pendingOf("!friends:hs"); !ok || len(c.pending.byRoom) != maxPendingJoins {
		t.Errorf("the friend's invitation is pending: %v, of %d", ok, len(c.pending.byRoom))
	}
	for i := range 10 {
		c.addPending(t.Context(), store.PendingJoin{RoomID: fmt.Sprintf("!upgraded%d:hs", i), Replaces: "!old:hs"})
	}
	if _, ok := c.pendingOf("!friends:hs"); !ok || len(c.pending.byRoom) != maxPendingJoins {
		t.Errorf("with upgraded rooms the friend's invitation is pending: %v, of %d", ok, len(c.pending.byRoom))
	}
	kept, err := c.state.PendingJoins(t.Context())
	if err != nil || len(kept) != 11 {
		t.Errorf("%d are stored, want 11 (%v)", len(kept), err)
	}
}

// A friend who invites while a stranger's invitation to the same room is looked at
// does not wait as the stranger does.
func TestPendingJoins_FriendInvitesAfterAStranger_IsDueAtOnce(t *testing.T) {
	c := offlineClient(t, "@friend:hs")
	c.addPending(t.Context(), pending("!a:hs", "@stranger:hs"))
	looked := c.duePending()[0]
	c.addPending(t.Context(), pending("!a:hs", "@friend:hs"))
	c.tryPending(t.Context(), looked)
	if due := c.duePending(); len(due) != 1 || due[0].stranger || due[0].Inviter != "@friend:hs" {
		t.Errorf("due: %+v", due)
	}
	c.tryPending(t.Context(), c.duePending()[0]) // nothing answers: it is put off
	if due := c.duePending(); len(due) != 0 {
		t.Errorf("due after an attempt: %+v", due)
	}
}

func TestPendingJoins_SurviveARestart(t *testing.T) {
	c := offlineClient(t)
	want := store.PendingJoin{RoomID: "!a:hs", Inviter: "@friend:hs", Replaces: "!old:hs", Via: "hs"}
	c.addPending(t.Context(), want)
	c.addPending(t.Context(), pending("!b:hs", "@friend:hs"))
	c.dropPending(t.Context(), "!b:hs")
	next, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t", State: c.state})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.loadPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := next.pendingOf("!a:hs"); got != want || len(next.pending.byRoom) != 1 {
		t.Errorf("pending: %+v, of %d", got, len(next.pending.byRoom))
	}
}
