package delivery_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// Of messages that are sent results are stored together, a little later. A relay that is killed before sends none of them
// twice, even if the homeserver has forgotten their transactions.
func TestKilled_ResultsNotStored_EachMessageArrivesOnce(t *testing.T) {
	relaytest.SQLiteOnly(t)
	synctest.Test(t, func(t *testing.T) {
		const sent = 20
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		var want []string
		var last int64
		for i := range sent + 10 {
			want = append(want, fmt.Sprint(i))
			last = r.Post(app.Token, want[i])
		}
		to := filepath.Join(t.TempDir(), "relay.db")
		killed := make(chan error, 1)
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			switch n := len(r.HS.Bodies(out.RoomID)); {
			case n == 0: // what a start stores takes results along
				return &relaytest.Answer{Store: true, Delay: time.Second}
			case n < sent:
				return nil
			}
			killed <- r.CopyDatabase(to)
			return &relaytest.Answer{Delay: time.Hour}
		}
		r.Start()
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		r.Crash()
		r.Path = to
		var stored int
		if r.Exec(`SELECT count(*) FROM outbox WHERE state = 'sent'`, &stored); stored == sent {
			t.Fatal("all results were stored")
		}
		r.HS.Script, r.HS.DeviceID = nil, "NEW"
		r.Open()
		r.Start()
		r.Await(last, post.StateSent)
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, want) {
			t.Errorf("the room has %q, want %q", got, want)
		}
	})
}

// A stop that cannot store what was sent is not a clean shutdown: at the next start that is in doubt.
func TestStop_ResultsCannotBeStored_EachMessageArrivesOnce(t *testing.T) {
	relaytest.SQLiteOnly(t)
	r := relaytest.NewRig(t)
	app := r.NewApp("a", "!a:hs")
	r.Shutdown()
	r.Exec(`CREATE TRIGGER full BEFORE UPDATE ON outbox WHEN NEW.state = 'sent' BEGIN SELECT RAISE(ABORT, 'full'); END`)
	r.Open()
	r.Start()
	r.Post(app.Token, "x")
	for end := time.Now().Add(time.Minute); len(r.HS.Bodies("!a:hs")) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.Stop()
	if err := r.Close(); err == nil {
		t.Error("the result was stored")
	}
	r.Exec(`DROP TRIGGER full`)
	r.HS.DeviceID = "NEW"
	r.Open()
	r.Start()
	r.Await(r.Post(app.Token, "y"), post.StateSent)
	if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("the room has %q", got)
	}
}

// A homeserver that comes back while the database cannot be written is sent what waits.
func TestBack_DatabaseFull(t *testing.T) {
	relaytest.SQLiteOnly(t)
	r := relaytest.NewRig(t)
	app := r.NewApp("a", "!a:hs")
	r.Start()
	r.Await(r.Post(app.Token, "before"), post.StateSent)
	r.Exec(`CREATE TRIGGER full BEFORE INSERT ON settings BEGIN SELECT RAISE(ABORT, 'full'); END`)
	r.HS.Script = func(_ matrix.Outgoing, attempt int) *relaytest.Answer {
		if attempt == 1 {
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassAway, Reason: "connection refused"}}
		}
		return nil
	}
	r.Await(r.Post(app.Token, "after"), post.StateSent)
}
