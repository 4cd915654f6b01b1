package synapsetest

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestFull_Start_AgainInTheSameDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	s, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	alice, err := s.NewUser(ctx, "alice", true)
	if err != nil {
		t.Fatal(err)
	}
	bob, err := s.NewUser(ctx, "bob", false)
	if err != nil {
		t.Fatal(err)
	}
	room, err := alice.CreateRoom(ctx, "hall", []string{bob.ID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := bob.Join(ctx, room); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Send(ctx, room, "m.room.message", map[string]string{"msgtype": "m.text", "body": "good morning"}); err != nil {
		t.Fatal(err)
	}
	wantMessage(ctx, t, bob, room, "good morning")
	if err := s.LiftRateLimit(ctx, alice.Token, bob.ID); err != nil {
		t.Fatal(err)
	}

	s.Stop()
	s.Stop() // does nothing
	again, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	// The account exists and stays; its session and room are still there.
	if err := again.CreateUser(ctx, "bob", bob.Password, false); err != nil {
		t.Fatal(err)
	}
	bob.server = again
	wantMessage(ctx, t, bob, room, "good morning")
}

func wantMessage(ctx context.Context, t *testing.T, u *User, room, want string) {
	t.Helper()
	events, err := u.Messages(ctx, room, "m.room.message")
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Field("body") != want {
		t.Fatalf("messages = %+v, want one %q", events, want)
	}
}

func TestFull_Start_SaysWhyItFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), Domain: "not a name", StartTimeout: 30 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "not a name") {
		t.Fatalf("error = %v, want one with the homeserver's own words", err)
	}
}
