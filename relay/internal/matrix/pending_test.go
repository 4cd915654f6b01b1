package matrix

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"slipway/relay/internal/store"
)

func offlineClient(t *testing.T, users ...string) *Client {
	t.Helper()
	c, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t", Store: newStore(t, users...)})
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
	kept, err := c.store.PendingJoins(t.Context())
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
	next, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t", Store: c.store})
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

// TestJoinSuccessor_CheckFailsAfterJoin_Leaves: the bot doesn't stay in a room whose predecessor it could not read.
func TestJoinSuccessor_CheckFailsAfterJoin_Leaves(t *testing.T) {
	var mu sync.Mutex
	joined, left := false, 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/account/whoami"):
			_, _ = io.WriteString(w, `{"user_id":"@bot:hs","device_id":"D"}`)
		case strings.Contains(path, "/join/"):
			joined = true
			_, _ = io.WriteString(w, `{"room_id":"!new:hs"}`)
		case strings.HasSuffix(path, "/leave"):
			joined = false
			left++
			_, _ = io.WriteString(w, `{}`)
		case strings.HasSuffix(path, "/state/m.room.create/") && !joined:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errcode":"M_FORBIDDEN"}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(hs.Close)
	c, err := New(Options{Homeserver: hs.URL, AccessToken: "t", Store: newStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = c.joinSuccessor(t.Context(), "!old:hs", "!new:hs", "hs")
	mu.Lock()
	defer mu.Unlock()
	if !hasClass(err, ClassRetry) || joined || left != 1 {
		t.Errorf("error %v, in the room %v, left %d times", err, joined, left)
	}
}
