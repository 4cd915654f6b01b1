package delivery_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
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
			return r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: text}, Later: time.Now().Add(after)}).ID
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
		if err != nil || m.State != post.StateQueued || time.Until(post.Time(m.NextAt)) != 30*time.Minute {
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

// A message with a key that is delayed again moves, as a dead man's switch does; one without a delay is sent in its place. Once the switch has
// fired, the next one is a message of its own.
func TestDelayed_WithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		r := relaytest.NewRig(t)
		r.HS.Strict = true
		app := r.NewApp("a", "!a:hs")
		v := account.Principal{ApplicationID: app.Application.ID}
		r.Start()
		send := func(text string, after time.Duration) int64 {
			in := post.Draft{Token: app.Token, Content: post.Content{Body: text}, Key: "switch", Change: post.Update}
			if after > 0 {
				in.Later = time.Now().Add(after)
			}
			return r.Send(in).ID
		}
		want := func(what string, all ...string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := inRoom(r, "!a:hs"); !slices.Equal(got, all) {
				t.Errorf("%s: %q, want %q", what, got, all)
			}
		}
		open := func(what string, n int) {
			t.Helper()
			if all, _, err := r.OpenAlerts(ctx, v, 0, 10); err != nil || len(all) != n {
				t.Errorf("%s: %d open alerts, %v, want %d", what, len(all), err, n)
			}
		}
		first := send("no backup", time.Hour)
		for range 5 {
			time.Sleep(50 * time.Minute)
			if id := send("no backup", time.Hour); id != first {
				t.Errorf("it moves to message %d, want %d", id, first)
			}
		}
		want("in time")
		open("in time", 0)
		time.Sleep(time.Hour)
		want("fired", "no backup")
		open("fired", 1)
		second := send("no backup again", time.Hour)
		if second == first {
			t.Error("what has fired moves")
		}
		open("watched again", 0)
		if id := send("backup is running", 0); id != second {
			t.Errorf("sent at once it is message %d, want %d", id, second)
		}
		want("at once", "no backup", "backup is running")
		open("at once", 1)
		time.Sleep(2 * time.Hour)
		want("nothing is left of the delayed one", "no backup", "backup is running")
		send("never", time.Hour)
		if id, err := r.Named(ctx, v, "switch", 0); err != nil || id <= second {
			t.Errorf("the key names message %d, %v", id, err)
		} else if _, err := r.Cancel(ctx, v, id); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		want("withdrawn", "no backup", "backup is running")
	})
}

// A message in flight when the relay is killed isn't sent again, though delayed ones that became due meanwhile precede it.
func TestDelayed_DueDuringAnAttempt_KilledThen_ArrivesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.SearchFirst = true })
		app := r.NewApp("a", "!a:hs")
		for range 70 {
			r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "delayed"}, Later: time.Now().Add(10 * time.Second)})
		}
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			r.HS.Put(out)
			return &relaytest.Answer{Delay: time.Hour}
		}
		r.Start()
		id := r.Post(app.Token, "x")
		time.Sleep(20 * time.Second)
		r.Kill()
		r.HS.Script = nil
		clear(r.HS.Txns)
		r.Open()
		r.Start()
		r.Await(id, post.StateSent)
		r.Drained()
		got := slices.DeleteFunc(r.HS.Bodies("!a:hs"), func(body string) bool { return body == "delayed" })
		if !slices.Equal(got, []string{"x"}) {
			t.Errorf("the room has %q besides the delayed ones", got)
		}
	})
}

// A delayed message isn't delivered again: it waits for its time.
func TestDelayed_Redelivered_Conflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		r.Start()
		id := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "later"}, Later: time.Now().Add(time.Hour)}).ID
		if m, err := r.Redeliver(ctx, r.Admin, id); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("%+v, %v", m, err)
		}
		if m := r.Stored(id); !m.Delayed() || len(r.HS.Bodies("!a:hs")) > 0 {
			t.Errorf("%+v", m)
		}
	})
}
