package matrix

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// offline returns the list of a bot whose homeserver does not answer, and which users may invite.
func offline(t *testing.T, users ...string) *joinList {
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
	return newJoins(joinOptions{Store: db, Log: zap.NewNop(), Join: func(context.Context, store.PendingJoin) (time.Duration, error) { return 0, errors.New("no answer") }})
}

func pending(room, inviter string) store.PendingJoin {
	return store.PendingJoin{RoomID: room, Inviter: inviter}
}

func TestList_StrangersFillAllPlaces_FriendGetsOne(t *testing.T) {
	c := offline(t, "@friend:hs")
	c.mu.Lock()
	for i := range maxRooms {
		room := fmt.Sprintf("!%d:hs", i)
		c.byRoom[room] = &join{PendingJoin: pending(room, fmt.Sprintf("@stranger%d:hs", i))}
	}
	c.mu.Unlock()
	c.Add(t.Context(), pending("!friends:hs", "@friend:hs"))
	if _, ok := c.Of("!friends:hs"); !ok || len(c.byRoom) != maxRooms {
		t.Errorf("the friend's invitation is pending: %v, of %d", ok, len(c.byRoom))
	}
	for i := range 10 {
		c.Add(t.Context(), store.PendingJoin{RoomID: fmt.Sprintf("!upgraded%d:hs", i), Replaces: fmt.Sprintf("!old%d:hs", i)})
	}
	if _, ok := c.Of("!friends:hs"); !ok || len(c.byRoom) != maxRooms {
		t.Errorf("with upgraded rooms the friend's invitation is pending: %v, of %d", ok, len(c.byRoom))
	}
	kept, err := c.o.Store.PendingJoins(t.Context())
	if err != nil || len(kept) != 11 {
		t.Errorf("%d are stored, want 11 (%v)", len(kept), err)
	}
}

// A room that names one successor after the other takes one place: nobody's invitation is displaced.
func TestList_NewestSuccessor(t *testing.T) {
	c := offline(t, "@friend:hs")
	c.Add(t.Context(), pending("!new0:hs", "@friend:hs"))
	for i := range 2 * maxRooms {
		c.Add(t.Context(), store.PendingJoin{RoomID: fmt.Sprintf("!new%d:hs", i), Replaces: "!old:hs"})
	}
	c.Add(t.Context(), pending("!friends:hs", "@friend:hs"))
	for room, want := range map[string]bool{"!new0:hs": true, "!new1:hs": false, fmt.Sprintf("!new%d:hs", 2*maxRooms-1): true, "!friends:hs": true} {
		if _, ok := c.Of(room); ok != want {
			t.Errorf("%s is pending: %v", room, ok)
		}
	}
	if kept, err := c.o.Store.PendingJoins(t.Context()); err != nil || len(kept) != 3 {
		t.Errorf("%d are stored, %v", len(kept), err)
	}
}

// A friend who invites while a stranger's invitation to the same room is checked
// does not wait as the stranger does.
func TestList_FriendInvitesAfterAStranger_IsDueAtOnce(t *testing.T) {
	c := offline(t, "@friend:hs")
	c.Add(t.Context(), pending("!a:hs", "@stranger:hs"))
	looked := c.begin()
	c.Add(t.Context(), pending("!a:hs", "@friend:hs"))
	c.try(t.Context(), *looked)
	c.end(looked)
	due := c.begin()
	if due == nil || !due.user || due.Inviter != "@friend:hs" {
		t.Fatalf("due: %+v", due)
	}
	c.try(t.Context(), *due) // nothing answers: it is put off
	c.end(due)
	if due := c.begin(); due != nil {
		t.Errorf("due after an attempt: %+v", due)
	}
}

func TestList_SurviveARestart(t *testing.T) {
	c := offline(t)
	want := store.PendingJoin{RoomID: "!a:hs", Inviter: "@friend:hs", Replaces: "!old:hs", Via: "hs"}
	c.Add(t.Context(), want)
	c.Add(t.Context(), pending("!b:hs", "@friend:hs"))
	c.Drop(t.Context(), "!b:hs")
	next := newJoins(c.o)
	if err := next.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := next.Of("!a:hs"); got != want || len(next.byRoom) != 1 {
		t.Errorf("pending: %+v, of %d", got, len(next.byRoom))
	}
}

// An invitation that was used or withdrawn doesn't come back when the room is no successor.
func TestList_NoSuccessor_UsedInvitationIsGone(t *testing.T) {
	c := offline(t)
	c.Add(t.Context(), pending("!a:hs", "@stranger:hs"))
	c.Add(t.Context(), store.PendingJoin{RoomID: "!a:hs", Replaces: "!old:hs"})
	c.Drop(t.Context(), "!a:hs")
	if got, ok := c.Of("!a:hs"); !ok || got.Replaces != "!old:hs" {
		t.Errorf("the successor isn't pending any more: %+v", got)
	}
	c.dropSuccessor(t.Context(), "!a:hs")
	if got, ok := c.Of("!a:hs"); ok {
		t.Errorf("pending: %+v", got)
	}
	if kept, err := c.o.Store.PendingJoins(t.Context()); err != nil || len(kept) > 0 {
		t.Errorf("stored: %+v, %v", kept, err)
	}
}

// Rooms that cannot be joined don't keep a user's invitation waiting, whether users or others invite to them. Their joins block until the test ends.
func TestList_Run_FloodOfOthers(t *testing.T) {
	for name, inviter := range map[string]func(i int) string{
		"one user":                   func(int) string { return "@flood:hs" },
		"one of an allowed server":   func(int) string { return "@flood:allowed" },
		"many of an allowed server":  func(i int) string { return fmt.Sprintf("@flood%d:allowed", i) },
		"strangers":                  func(i int) string { return fmt.Sprintf("@flood%d:hs", i) },
		"a stranger before the real": func(int) string { return "@stranger:hs" },
	} {
		t.Run(name, func(t *testing.T) {
			c := offline(t, "@friend:hs", "@flood:hs")
			c.o.Servers = []string{"allowed"}
			joined := make(chan struct{})
			c.o.Ready = func() bool { return true }
			c.o.Join = func(ctx context.Context, p store.PendingJoin) (time.Duration, error) {
				if p.RoomID == "!friends:hs" {
					close(joined)
					return 0, nil
				}
				<-ctx.Done()
				return 0, ctx.Err()
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { c.Run(ctx); close(ended) }()
			const flood = maxRooms + 100
			for i := range flood {
				c.Add(t.Context(), pending(fmt.Sprintf("!%d:hs", i), inviter(i)))
				if i == flood/2 {
					c.Add(t.Context(), pending("!friends:hs", "@friend:hs"))
				}
			}
			select {
			case <-joined:
			case <-time.After(time.Minute):
				t.Error("the friend's invitation waits")
			}
			stop()
			<-ended
		})
	}
}

// Of two that nobody knows, the one with fewer invitations comes first, and nobody has all the attempts.
func TestList_Begin_Shares(t *testing.T) {
	c := offline(t)
	c.o.Servers = []string{"allowed"}
	for i := range maxRooms + 10 {
		c.Add(t.Context(), pending(fmt.Sprintf("!%d:hs", i), "@flood:allowed"))
	}
	c.Add(t.Context(), pending("!other:hs", "@other:allowed"))
	for i := range 20 {
		c.Add(t.Context(), pending(fmt.Sprintf("!last%d:hs", i), "@flood:allowed"))
	}
	var rooms []string
	for due := c.begin(); due != nil; due = c.begin() {
		rooms = append(rooms, due.Inviter)
	}
	if want := []string{"@other:allowed", "@flood:allowed", "@flood:allowed"}; !slices.Equal(rooms, want) {
		t.Errorf("tried for %q, want %q", rooms, want)
	}
	if len(c.byRoom) != maxRooms {
		t.Errorf("%d rooms", len(c.byRoom))
	}
}
