package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/encryption"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// TestExamine_RelayDoesNotRun: that comes first, and is no failure before the first start. The bot's device, which nobody
// prepares then, is not blamed.
func TestExamine_RelayDoesNotRun(t *testing.T) {
	s, hs := relaytest.New(t, func(o *service.Options) { // so that it delivers nothing, as if it did not run
		o.Delivery.Sender.(*relaytest.Homeserver).Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver cannot be reached"})
	})
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	p := Target{
		Service: s, Probe: func(context.Context) error { return nil }, Identity: hs.Identity, Stopped: "http://127.0.0.1:8080",
		Encryption: func() (encryption.Identity, string) {
			return encryption.Identity{}, "the bot's device is being prepared"
		},
	}
	first := func() Finding {
		t.Helper()
		findings := Examine(t.Context(), p, admin)
		for _, f := range findings {
			if strings.Contains(f.Text, "device") || f.Check == "delivery" {
				t.Errorf("beside the relay that does not run: %+v", f)
			}
		}
		return findings[0]
	}
	if f, want := first(), "The relay does not run at http://127.0.0.1:8080 yet: start it."; f.Check != "relay" || !f.Warn || !f.OK || f.Text != want {
		t.Errorf("before the first start: %+v", f)
	}
	hs.Has(matrix.RoomInfo{RoomID: "!a:hs", Joined: true, Writable: true, Encrypted: true})
	name, room := "app", "!a:hs"
	app, err := s.CreateApplication(t.Context(), admin, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		t.Fatal(err)
	}
	if f := first(); !f.OK {
		t.Errorf("with an application: %+v", f)
	}
	if _, err := s.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: "hello"}}); err != nil {
		t.Fatal(err)
	}
	if f, want := first(), "The relay does not run at http://127.0.0.1:8080: nothing is delivered. Start it; its log says why it ended."; f.OK || f.Text != want {
		t.Errorf("with a message that waits: %+v", f)
	}
	expect(t, Examine(t.Context(), p, admin), "outbox", false, "1 message waits until the relay runs.")
}

// TestExamine_RelayHasRun: one that has delivered and does not run is a failure, though nothing waits.
func TestExamine_RelayHasRun(t *testing.T) {
	s, hs := relaytest.New(t, nil)
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	hs.Has(matrix.RoomInfo{RoomID: "!a:hs", Joined: true, Writable: true})
	name, room := "app", "!a:hs"
	app, err := s.CreateApplication(t.Context(), admin, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: "hello"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Wait(t.Context(), admin, a.ID, time.Minute); err != nil || m.State.Pending() {
		t.Fatalf("the message: %+v, %v", m, err)
	}
	findings := Examine(t.Context(), Target{Service: s, Probe: hs.Probe, Identity: hs.Identity, Stopped: "http://127.0.0.1:8080"}, admin)
	if f := findings[0]; f.Check != "relay" || f.OK || !strings.HasPrefix(f.Text, "The relay does not run at http://127.0.0.1:8080: nothing is delivered.") {
		t.Errorf("%+v", f)
	}
}
