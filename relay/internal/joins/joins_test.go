package joins

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// offline returns the list of a bot whose homeserver does not answer, and which users may invite.
func offline(t *testing.T, users ...string) *List {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, user := range users {
		if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.SaveUser(&store.User{Name: user, MatrixID: user}) }); err != nil {
			t.Fatal(err)
		}
	}
	return New(Options{Store: db, Log: zap.NewNop(), Join: func(context.Context, store.PendingJoin) (time.Duration, error) { return 0, errors.New("no answer") }})
}

func pending(room, inviter string) store.PendingJoin {
	return store.PendingJoin{RoomID: room, Inviter: inviter}
}

func TestList_StrangersFillAllPlaces_FriendGetsOne(t *testing.T) {
	c := offline(t, "@friend:hs")
	c.mu.Lock()
	for i := range maxRooms { // as after that many checks of their inviters
		room := fmt.Sprintf("!%d:hs", i)
		c.byRoom[room] = &join{PendingJoin: pending(room, "@stranger:hs"), stranger: true}
	}
	c.mu.Unlock()
	c.Add(t.Context(), pending("!friends:hs", "@friend:hs"))
	if _, ok := c.Of("!friends:hs"); !ok || len(c.byRoom) != maxRooms {
		t.Errorf("the friend's invitation is pending: %v, of %d", ok, len(c.byRoom))
	}
	for i := range 10 {
		c.Add(t.Context(), store.PendingJoin{RoomID: fmt.Sprintf("!upgraded%d:hs", i), Replaces: "!old:hs"})
	}
	if _, ok := c.Of("!friends:hs"); !ok || len(c.byRoom) != maxRooms {
		t.Errorf("with upgraded rooms the friend's invitation is pending: %v, of %d", ok, len(c.byRoom))
	}
	kept, err := c.o.Store.PendingJoins(t.Context())
	if err != nil || len(kept) != 11 {
		t.Errorf("%d are stored, want 11 (%v)", len(kept), err)
	}
}

// A friend who invites while a stranger's invitation to the same room is checked
// does not wait as the stranger does.
func TestList_FriendInvitesAfterAStranger_IsDueAtOnce(t *testing.T) {
	c := offline(t, "@friend:hs")
	c.Add(t.Context(), pending("!a:hs", "@stranger:hs"))
	looked := c.due()[0]
	c.Add(t.Context(), pending("!a:hs", "@friend:hs"))
	c.try(t.Context(), looked)
	if due := c.due(); len(due) != 1 || due[0].stranger || due[0].Inviter != "@friend:hs" {
		t.Errorf("due: %+v", due)
	}
	c.try(t.Context(), c.due()[0]) // nothing answers: it is put off
	if due := c.due(); len(due) != 0 {
		t.Errorf("due after an attempt: %+v", due)
	}
}

func TestList_SurviveARestart(t *testing.T) {
	c := offline(t)
	want := store.PendingJoin{RoomID: "!a:hs", Inviter: "@friend:hs", Replaces: "!old:hs", Via: "hs"}
	c.Add(t.Context(), want)
	c.Add(t.Context(), pending("!b:hs", "@friend:hs"))
	c.Drop(t.Context(), "!b:hs")
	next := New(c.o)
	if err := next.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := next.Of("!a:hs"); got != want || len(next.byRoom) != 1 {
		t.Errorf("pending: %+v, of %d", got, len(next.byRoom))
	}
}
