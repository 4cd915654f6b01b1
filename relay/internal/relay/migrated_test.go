package relay

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/message"
)

// firstEdition makes the database that the first edition's binary left when it was killed, and tells the homeserver what
// it has got by then; see testdata/first-edition.py.
func firstEdition(t *testing.T, hs *homeserver, path string) {
	t.Helper()
	dump, err := os.ReadFile("testdata/first-edition.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(strings.ReplaceAll(string(dump), "\x01", strings.Repeat("long ", 20_000))); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(`SELECT room, device, txn, event_id, body FROM arrived`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var room, device string
		var e event
		if err := rows.Scan(&room, &device, &e.txn, &e.id, &e.body); err != nil {
			t.Fatal(err)
		}
		hs.txns[device+" "+room+" "+e.txn] = e.id
		hs.events[room] = append(hs.events[room], e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestFirstEditionsDatabase brings a database along that the first edition left in the middle of its work. What was final
// stays so, and the rest is delivered, once and in order.
func TestFirstEditionsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 22, 9, 15, 0, 0, time.UTC))) // shortly after
		hs := newHomeserver()
		hs.device = "SINK2"
		r := &rig{t: t, hs: hs, path: filepath.Join(t.TempDir(), "relay.db"), o: Options{Sender: hs, Rooms: hs, Log: zap.NewNop(), CheckToken: true}}
		firstEdition(t, hs, r.path)
		r.open()
		t.Cleanup(func() { r.close() })
		type standing struct {
			before, after State
			err           string // a part of the error in the end
		}
		want := map[int64]standing{
			1:  {StateSent, StateSent, ""},
			2:  {StateRedacted, StateRedacted, ""},
			3:  {StateSent, StateSent, ""}, // with its file
			4:  {StateDead, StateDead, "does not accept"},
			6:  {StateBlocked, StateSent, ""},
			7:  {StateCancelled, StateCancelled, ""},
			8:  {StateBlocked, StateSent, ""}, // in parts
			9:  {StateCancelled, StateCancelled, message.InDoubt},
			10: {StateAmbiguous, StateAmbiguous, "look into the room"},
			11: {StateSent, StateRedacted, ""},
			12: {StateSent, StateSent, ""}, // its file was still to follow
			14: {StateRetryWait, StateSent, ""},
			15: {StateQueued, StateSent, ""},
			16: {StateQueued, StateSent, ""},
			17: {StateQueued, StateSent, ""},
		}
		for id, w := range want {
			if m := r.message(id); m.State != w.before {
				t.Errorf("message %d is %s at first, want %s", id, m.State, w.before)
			}
		}
		if n := r.waiting(); n != 8 { // six messages, a file and a removal
			t.Errorf("%d wait", n)
		}
		apps, err := r.Applications(ctx, r.admin)
		if err != nil || len(apps) != 6 || apps[0].Accepted != 4 || apps[0].Sent != 4 {
			t.Fatalf("%+v, %v", apps, err)
		}
		r.run()
		time.Sleep(time.Hour)
		for id, w := range want {
			if m := r.message(id); m.State != w.after || !strings.Contains(m.Error, w.err) || w.err == "" && m.Error != "" {
				t.Errorf("message %d is %s, %q in the end; want %s, %q", id, m.State, m.Error, w.after, w.err)
			}
		}
		for room, want := range map[string][]string{
			"!good:hs":    {"sent", "removed", "long", "[File]", "long", "[File]"},
			"!blocked:hs": {"first", "long", "long", "long", "long"},
			"!lost:hs":    {"lost", "waits", "waits", "waits"},
			"!doubt:hs":   nil,
			"!unsure:hs":  {"lost"},
			"!dead:hs":    nil, // the one that was withdrawn is removed
		} {
			var got []string
			for _, e := range hs.events[room] {
				word, _, _ := strings.Cut(e.body, " ")
				if strings.HasPrefix(word, "message.") {
					word = "[File]"
				}
				got = append(got, word)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", room, got, want)
			}
		}
		r.keysStand(apps[0].ID)
	})
}

// keysStand repeats a request of before, and makes a new one.
func (r *rig) keysStand(app int64) {
	r.t.Helper()
	again, err := r.AcceptFor(ctx, r.admin, app, AcceptRequest{Message: "sent", IdempotencyKey: "key of sent"})
	if err != nil || !again.Replay || again.ID != 1 || again.State != StateSent {
		r.t.Errorf("a repeated request: %+v, %v", again, err)
	}
	fresh, err := r.AcceptFor(ctx, r.admin, app, AcceptRequest{Message: "fresh"})
	if err != nil || fresh.ID <= 17 {
		r.t.Errorf("a new one: %+v, %v", fresh, err)
	}
	r.await(fresh.ID, StateSent)
}
