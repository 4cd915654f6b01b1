package relay_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/relaytest"
)

// watched is an application that must give a sign of life every five minutes, with a minute of grace.
func watched(t *testing.T, r *relaytest.Rig) (token string, id int64) {
	t.Helper()
	app := r.NewApp("cron", "!a:hs")
	interval, grace := 5*time.Minute, time.Minute
	if _, err := r.UpdateApplication(t.Context(), r.Admin, app.Application.ID, account.ApplicationInput{Heartbeat: &interval, HeartbeatGrace: &grace}); err != nil {
		t.Fatal(err)
	}
	return app.Token, app.Application.ID
}

func beat(t *testing.T, r *relaytest.Rig, id int64) {
	t.Helper()
	if err := r.Beat(t.Context(), r.App(id)); err != nil {
		t.Fatal(err)
	}
}

// Silence makes one alarm, which a sign of life edits. What counts is any message, also one that says nothing new.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		token, id := watched(t, r)
		r.Start()
		report := intake.Request{Token: token, Message: "alive", Key: "watchdog", Change: intake.Update}
		for range 3 {
			time.Sleep(4 * time.Minute)
			beat(t, r, id)
			time.Sleep(4 * time.Minute)
			if _, err := r.Accept(t.Context(), report); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5*time.Minute + 55*time.Second)
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "alive" {
			t.Errorf("before: %q", got)
		}
		time.Sleep(time.Hour)
		beat(t, r, id)
		time.Sleep(5 * time.Second)
		r.Drained()
		got := r.HS.Bodies("!a:hs")
		if len(got) != 3 || !strings.Contains(got[1], "No heartbeat\n\nNothing has come in since 2000-01-01 00:24:00 UTC; a sign of life is due every 5m.") ||
			!strings.Contains(got[2], "* ✅ No heartbeat\n\n✅ Resolved after 1 h 5 min.\n\nThe heartbeat is back.") {
			t.Errorf("%q", got)
		}
	})
}

// A relay that was away waits an interval before it raises an alarm, and goes on with the alarm that it has raised.
func TestHeartbeat_AfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		_, id := watched(t, r)
		r.Start()
		r.Crash()
		time.Sleep(time.Hour)
		r.Open()
		r.Start()
		time.Sleep(5*time.Minute + 55*time.Second)
		if got := r.HS.Bodies("!a:hs"); len(got) != 0 {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(10 * time.Second)
		r.Drained()
		r.Crash()
		r.Open()
		r.Start()
		time.Sleep(time.Hour)
		if got := r.HS.Bodies("!a:hs"); len(got) != 1 {
			t.Errorf("after another start: %q", got)
		}
		beat(t, r, id)
		time.Sleep(2 * time.Second)
		r.Drained()
		off := time.Duration(0)
		if _, err := r.UpdateApplication(t.Context(), r.Admin, id, account.ApplicationInput{Heartbeat: &off}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := r.HS.Bodies("!a:hs"); len(got) != 2 || !strings.Contains(got[1], "The heartbeat is back.") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// An alarm ends when the application needs no signs of life any more. One that was withdrawn doesn't come back.
func TestHeartbeat_TurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		_, id := watched(t, r)
		r.Start()
		time.Sleep(10 * time.Minute)
		off := time.Duration(0)
		if _, err := r.UpdateApplication(t.Context(), r.Admin, id, account.ApplicationInput{Heartbeat: &off}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); len(got) != 2 || !strings.Contains(got[1], "not watched any more") {
			t.Errorf("%q", got)
		}
	})
}

// An alert that the application itself calls like the alarm is another one.
func TestHeartbeat_KeyOfASender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		token, id := watched(t, r)
		r.Start()
		report := intake.Request{Token: token, Message: "its own", Key: "heartbeat", Change: intake.Update}
		accept := func() {
			t.Helper()
			if _, err := r.Accept(t.Context(), report); err != nil {
				t.Fatal(err)
			}
		}
		accept()
		time.Sleep(10 * time.Minute)
		accept() // a sign of life that says nothing new
		time.Sleep(5 * time.Second)
		beat(t, r, id)
		time.Sleep(5 * time.Second)
		report.Message, report.Change = "over", intake.Resolve
		accept()
		r.Drained()
		got := r.HS.Bodies("!a:hs")
		if len(got) != 4 || got[0] != "its own" || !strings.HasPrefix(got[1], "No heartbeat") || !strings.Contains(got[2], "The heartbeat is back.") || !strings.Contains(got[3], "over") {
			t.Errorf("%q", got)
		}
	})
}
