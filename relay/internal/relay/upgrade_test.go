package relay

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
)

// A message whose answer was lost before its room was upgraded is looked for in the old
// room: the homeserver would take it for another one in the new.
func TestUpgradeBetweenTwoAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, findable bool
		after            time.Duration // the room is replaced; the attempt takes a second
		in               string
		state            State
	}{
		"during the attempt": {true, true, 500 * time.Millisecond, "!old:hs", StateSent},
		"arrived":            {true, true, 1001 * time.Millisecond, "!old:hs", StateSent},
		"did not arrive":     {false, true, 1001 * time.Millisecond, "!new:hs", StateSent},
		"nobody knows":       {false, false, 1001 * time.Millisecond, "", StateAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.findable = tt.findable
				r.hs.script = func(_ Outgoing, n int) *answer {
					if n > 1 {
						return nil
					}
					time.AfterFunc(tt.after, func() { r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) })
					return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: tt.stored, delay: time.Second}
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!old:hs").Token, "x")
				time.Sleep(time.Hour)
				m := r.message(id)
				if m.State != tt.state {
					t.Errorf("it is %s, %q", m.State, m.Error)
				}
				for _, room := range []string{"!old:hs", "!new:hs"} {
					if n := len(r.hs.bodies(room)); n != 0 && room != tt.in || n != 1 && room == tt.in {
						t.Errorf("%d are in %s, want it in %q", n, room, tt.in)
					}
				}
			})
		})
	}
}

// The same after a restart in between, for the file behind a cut message, and for one
// that is withdrawn: of that one nobody can tell any more.
func TestUpgradeBeforeTheNextAttempt(t *testing.T) {
	long := strings.Repeat("long ", 40_000)
	for name, tt := range map[string]struct {
		text, kind string
		then       func(*rig, int64)
	}{
		"restart":          {"x", "m.text", func(r *rig, _ int64) { r.close(); r.open(); r.run() }},
		"file":             {long, "m.file", func(*rig, int64) {}},
		"file and restart": {long, "m.file", func(r *rig, _ int64) { r.close(); r.open(); r.run() }},
		"withdrawn": {"x", "m.text", func(r *rig, id int64) {
			m, err := r.Cancel(ctx, r.admin, id)
			if err != nil || m.State != StateCancelled || m.Error != message.InDoubt {
				t.Errorf("it is %s, %q, %v", m.State, m.Error, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				n := 0
				r.hs.script = func(out Outgoing, _ int) *answer {
					if !strings.Contains(string(out.Content), tt.kind) {
						return nil
					}
					switch n++; n {
					case 1:
						return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: true}
					case 2: // so that the room is replaced before the next attempt
						return &answer{err: &SendError{Class: ClassWait, RetryAfter: time.Minute}}
					}
					return nil
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!old:hs").Token, tt.text)
				time.Sleep(10 * time.Second)
				r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
				tt.then(r, id)
				time.Sleep(time.Hour)
				found := map[string]int{}
				r.hs.mu.Lock()
				for room, events := range r.hs.events {
					for _, e := range events {
						if e.kind == tt.kind {
							found[room]++
						}
					}
				}
				r.hs.mu.Unlock()
				if len(found) != 1 || found["!old:hs"] != 1 {
					t.Errorf("it is there %v times", found)
				}
			})
		})
	}
}

// Where the bot is not let look into the old room, nobody can tell: neither is the message
// sent once more, nor is that asked for ever, nor does it hold up the new room.
func TestUpgradeWithoutALookBack(t *testing.T) {
	for text, tt := range map[string]struct {
		kind  string
		state State
	}{"x": {"m.text", StateAmbiguous}, strings.Repeat("long ", 40_000): {"m.file", StateSent}} {
		for _, class := range []Class{ClassBlock, ClassJoin, ClassReconcile} {
			t.Run(tt.kind+" "+string(class), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.hs.unfind = map[string]error{"!old:hs": &SendError{Class: class, Reason: "refused"}}
					r.hs.script = func(out Outgoing, n int) *answer {
						if n > 1 || !strings.Contains(string(out.Content), tt.kind) {
							return nil
						}
						time.AfterFunc(10*time.Millisecond, func() { r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) })
						return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: true}
					}
					r.run()
					synctest.Wait()
					app := r.app("a", "!old:hs")
					id, next := r.send(app.Token, text), r.send(app.Token, "next")
					time.Sleep(time.Minute)
					if m := r.message(id); m.State != tt.state || !strings.Contains(m.Error, "annot be told") {
						t.Errorf("it is %s, %q", m.State, m.Error)
					}
					if m := r.message(next); m.State != StateSent || m.RoomID != "!new:hs" {
						t.Errorf("the next one is %s, %q", m.State, m.Error)
					}
				})
			})
		}
	}
}

// After a crash an attempt counts as begun when its message was accepted, and may have
// gone to either room.
func TestUpgradeBeforeACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.send(r.app("a", "!old:hs").Token, "x")
		time.Sleep(time.Second)
		r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		var txn string
		r.exec(fmt.Sprintf(`SELECT txn FROM outbox WHERE id = %d`, id), &txn)
		r.hs.put(Outgoing{RoomID: "!new:hs", TxnID: txn, Content: []byte(`{"body":"x"}`)})
		if err := r.store.MarkSuspects(ctx, r.hs.device); err != nil {
			t.Fatal(err)
		}
		r.close()
		r.hs.device = "DEV2"
		r.open()
		r.run()
		time.Sleep(time.Minute)
		if m := r.message(id); m.State != StateSent || len(r.hs.bodies("!new:hs")) != 1 || len(r.hs.bodies("!old:hs")) != 0 {
			t.Errorf("it is %s, %q, and in the room %d times", m.State, m.Error, len(r.hs.bodies("!new:hs")))
		}
	})
}
