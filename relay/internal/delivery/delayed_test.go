package delivery_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/relaytest"
)

// A delayed message waits for its time, also after a kill, and holds up none that comes after it.
func TestDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		r := relaytest.NewRig(t)
		r.HS.Strict = true
		app := r.NewApp("a", "!a:hs")
		r.Start()
		send := func(text string, after time.Duration) int64 {
			return r.Send(intake.Request{Token: app.Token, Message: text, Later: time.Now().Add(after)}).ID
		}
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			if got := inRoom(r, "!a:hs"); !slices.Equal(got, all) {
				t.Errorf("%v later: %q, want %q", time.Now(), got, all)
			}
		}
		send("in ten seconds", 10*time.Second)
		time.Sleep(11 * time.Second)
		want("in ten seconds")
		id := send("in an hour", time.Hour)
		withdrawn := send("never", time.Hour)
		send("now", 0)
		time.Sleep(30 * time.Minute)
		want("in ten seconds", "now")
		m, err := r.Message(ctx, account.Principal{ApplicationID: app.Application.ID}, id)
		if err != nil || m.State != outbox.StateQueued || time.Until(m.NextAttempt) != 30*time.Minute {
			t.Errorf("%+v, %v", m, err)
		}
		if s := r.Status(ctx); s.OldestAge != 0 {
			t.Errorf("the oldest waits for %v", s.OldestAge)
		}
		if _, err := r.Cancel(ctx, account.Principal{ApplicationID: app.Application.ID}, withdrawn); err != nil {
			t.Error(err)
		}
		r.Kill()
		r.HS.DeviceID, r.HS.Findable = "NEW", false // what may have been attempted is in doubt
		r.Open()
		r.Start()
		time.Sleep(29 * time.Minute)
		want("in ten seconds", "now")
		time.Sleep(time.Minute + 10*time.Second)
		want("in ten seconds", "now", "in an hour")
	})
}
