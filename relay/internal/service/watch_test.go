package service_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// watched is an application that must send a heartbeat every five minutes, with a minute of grace.
func watched(t *testing.T, r *relaytest.Rig) (token string, id int64) {
	t.Helper()
	app := r.NewApp("cron", "!a:hs")
	interval, grace := 5*time.Minute, time.Minute
	r.Set(app.Application.ID, account.ApplicationInput{Heartbeat: &interval, HeartbeatGrace: &grace})
	return app.Token, app.Application.ID
}

func beat(t *testing.T, r *relaytest.Rig, id int64) {
	t.Helper()
	app, err := r.App(t.Context(), id)
	if err == nil {
		err = r.Beat(t.Context(), app)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Silence makes one alarm, which a heartbeat edits. What counts is any message, also one that says nothing new.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		token, id := watched(t, r)
		r.Start()
		report := post.Draft{Token: token, Content: post.Content{Body: "alive"}, Key: "watchdog", Change: post.Update}
		for range 3 {
			time.Sleep(4 * time.Minute)
			beat(t, r, id)
			time.Sleep(4 * time.Minute)
			r.Send(report)
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
		if len(got) != 3 || !strings.Contains(got[1], "No heartbeat from cron\n\nNo heartbeat since 2000-01-01 00:24:00 UTC; one is due every 5m.") ||
			!strings.Contains(got[2], "* ✅ Heartbeat of cron\n\n✅ Resolved after 1 h 5 min.\n\nThe heartbeat is back.") {
			t.Errorf("%q", got)
		}
	})
}

// Heartbeats are watched when times lie ahead because the clock was set back.
func TestHeartbeat_ClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		token, id := watched(t, r)
		r.Start()
		const ahead = `978307200000` // a year later
		r.Exec(`UPDATE applications SET last_used = ` + ahead)
		want := func(when string, events int, last string) {
			t.Helper()
			r.Drained()
			if got := r.HS.Bodies("!a:hs"); len(got) != events || !strings.Contains(got[events-1], last) {
				t.Errorf("%s: %q", when, got)
			}
		}
		time.Sleep(10 * time.Minute)
		want("heard of in the future", 1, "No heartbeat since 2000-01-01 00:00:00")
		beat(t, r, id)
		time.Sleep(5 * time.Second)
		want("a heartbeat", 2, "The heartbeat is back.")
		time.Sleep(time.Hour)
		want("an alarm", 4, "No heartbeat since 2000-01-01 00:10:00")
		r.Exec(`UPDATE applications SET last_used = ` + ahead)
		r.Exec(`UPDATE alerts SET episode = ` + ahead)
		time.Sleep(time.Hour)
		want("silent", 4, "No heartbeat")
		r.Send(post.Draft{Token: token, Content: post.Content{Body: "alive"}})
		time.Sleep(5 * time.Second)
		want("a message", 6, "The heartbeat is back.")
		time.Sleep(time.Hour)
		want("another alarm", 8, "No heartbeat since 2000-01-01 02:10:05")
	})
}

// A relay that was away waits an interval before it raises an alarm, and continues with the alarm that it has raised.
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
		r.Recover()
		time.Sleep(time.Hour)
		if got := r.HS.Bodies("!a:hs"); len(got) != 1 {
			t.Errorf("after another start: %q", got)
		}
		beat(t, r, id)
		time.Sleep(2 * time.Second)
		r.Drained()
		off := time.Duration(0)
		r.Set(id, account.ApplicationInput{Heartbeat: &off})
		time.Sleep(time.Hour)
		if got := r.HS.Bodies("!a:hs"); len(got) != 2 || !strings.Contains(got[1], "The heartbeat is back.") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// An alarm that was withdrawn doesn't come back, also after a start. The next silence makes another one.
func TestHeartbeat_Withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		_, id := watched(t, r)
		r.Start()
		time.Sleep(10 * time.Minute)
		page, err := r.Messages(t.Context(), r.Admin, service.Filter{})
		if err != nil || len(page.Messages) != 1 {
			t.Fatalf("%d messages, %v", len(page.Messages), err)
		}
		alarm := page.Messages[0].ID
		r.Await(alarm, post.StateSent)
		r.Withdraw(alarm)
		r.Await(alarm, post.StateRedacted)
		time.Sleep(10 * time.Minute)
		r.Recover()
		time.Sleep(10 * time.Minute)
		if got := r.HS.Bodies("!a:hs"); len(got) != 0 {
			t.Errorf("withdrawn: %q", got)
		}
		beat(t, r, id)
		time.Sleep(10 * time.Minute)
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); len(got) != 1 || !strings.HasPrefix(got[0], "No heartbeat") {
			t.Errorf("silent again: %q", got)
		}
	})
}

// A relay that could not look at the database for a while has not heard those who sent to it: they get an interval more.
func TestHeartbeat_AfterBlindness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		watched(t, r)
		time.Sleep(time.Hour)
		for _, tt := range []struct {
			blind  time.Duration
			alarms int
		}{{16 * time.Second, 0}, {15 * time.Second, 1}} {
			if err := r.WatchOnce(t.Context(), tt.blind); err != nil {
				t.Fatal(err)
			}
			if page, err := r.Messages(t.Context(), r.Admin, service.Filter{}); err != nil || len(page.Messages) != tt.alarms {
				t.Errorf("blind for %v: %d alarms, %v", tt.blind, len(page.Messages), err)
			}
		}
	})
}

// An outage of the database is one line in the log, and the next one another.
func TestWatch_Fails_IsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		core, logged := observer.New(zap.WarnLevel)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Log = zap.New(core) })
		watched(t, r)
		r.Start()
		for outages := 1; outages <= 2; outages++ {
			synctest.Wait() // the database is written to at the start
			r.Exec("ALTER TABLE alerts RENAME TO away")
			time.Sleep(time.Minute)
			if n := logged.FilterMessage("cannot watch the applications").Len(); n != outages {
				t.Errorf("%d lines after outage %d", n, outages)
			}
			synctest.Wait()
			r.Exec("ALTER TABLE away RENAME TO alerts")
			time.Sleep(time.Minute)
		}
	})
}

// An alarm ends when the application needs no heartbeats any more.
func TestHeartbeat_TurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		_, id := watched(t, r)
		r.Start()
		time.Sleep(10 * time.Minute)
		off := time.Duration(0)
		r.Set(id, account.ApplicationInput{Heartbeat: &off})
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
		report := post.Draft{Token: token, Content: post.Content{Body: "its own"}, Key: "heartbeat", Change: post.Update}
		accept := func() {
			t.Helper()
			r.Send(report)
		}
		accept()
		time.Sleep(10 * time.Minute)
		accept() // a heartbeat that says nothing new
		time.Sleep(5 * time.Second)
		beat(t, r, id)
		time.Sleep(5 * time.Second)
		report.Body, report.Change = "over", post.Resolve
		accept()
		r.Drained()
		got := r.HS.Bodies("!a:hs")
		if len(got) != 4 || got[0] != "its own" || !strings.HasPrefix(got[1], "No heartbeat") || !strings.Contains(got[2], "The heartbeat is back.") || !strings.Contains(got[3], "over") {
			t.Errorf("%q", got)
		}
	})
}
