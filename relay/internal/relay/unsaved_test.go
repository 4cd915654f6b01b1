package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Of messages that are sent results are stored together, a little later. A relay that is killed before sends none of them
// twice, even if the homeserver does not recognise their transactions any more.
func testKilled_ResultsNotStored_EachMessageArrivesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sent = 20
		r := newRig(t)
		app := r.app("a", "!a:hs")
		var want []string
		var last int64
		for i := range sent + 10 {
			want = append(want, fmt.Sprint(i))
			last = r.send(app.Token, want[i])
		}
		to := filepath.Join(t.TempDir(), "relay.db")
		killed := make(chan error, 1)
		r.hs.script = func(out Outgoing, _ int) *answer {
			if len(r.hs.bodies(out.RoomID)) < sent {
				return nil
			}
			killed <- r.copyDatabase(to)
			return &answer{delay: time.Hour}
		}
		r.run()
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		r.crash()
		r.path = to
		var stored int
		if r.exec(`SELECT count(*) FROM outbox WHERE state = 'sent'`, &stored); stored == sent {
			t.Fatal("all results were stored")
		}
		r.hs.script, r.hs.device = nil, "NEW"
		r.open()
		r.run()
		r.await(last, StateSent)
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, want) {
			t.Errorf("the room has %q, want %q", got, want)
		}
	})
}

// copyDatabase copies the files of SQLite's database as they are, as a kill would leave them.
func (r *rig) copyDatabase(to string) error {
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(r.path + suffix)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// A stop that cannot store what was sent is no orderly one: at the next start that is in doubt.
func testStop_ResultsCannotBeStored_EachMessageArrivesOnce(t *testing.T) {
	r := newRig(t)
	app := r.app("a", "!a:hs")
	r.close()
	r.exec(`CREATE TRIGGER full BEFORE UPDATE ON outbox WHEN NEW.state = 'sent' BEGIN SELECT RAISE(ABORT, 'full'); END`)
	r.open()
	r.run()
	r.send(app.Token, "x")
	for end := time.Now().Add(time.Minute); len(r.hs.bodies("!a:hs")) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.stop()
	if err := r.Close(); err == nil {
		t.Error("the result was stored")
	}
	r.exec(`DROP TRIGGER full`)
	r.hs.device = "NEW"
	r.open()
	r.run()
	r.await(r.send(app.Token, "y"), StateSent)
	if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("the room has %q", got)
	}
}
