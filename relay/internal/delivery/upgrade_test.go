package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// A message whose answer was lost before its room was upgraded is searched for in the old
// room: the homeserver would take it for another one in the new.
func TestUpgradeBetweenTwoAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, findable bool
		after            time.Duration // the room is replaced; the attempt takes a second
		in               string
		state            post.State
	}{
		"during the attempt": {true, true, 500 * time.Millisecond, "!old:hs", post.StateSent},
		"arrived":            {true, true, 1001 * time.Millisecond, "!old:hs", post.StateSent},
		"did not arrive":     {false, true, 1001 * time.Millisecond, "!new:hs", post.StateSent},
		"nobody knows":       {false, false, 1001 * time.Millisecond, "", post.StateAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.HS.Findable = tt.findable
				r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
					if n > 1 {
						return nil
					}
					time.AfterFunc(tt.after, func() { r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) })
					return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: tt.stored, Delay: time.Second}
				}
				r.Start()
				synctest.Wait()
				id := r.Post(r.NewApp("a", "!old:hs").Token, "x")
				time.Sleep(time.Hour)
				m := r.Stored(id)
				if m.State != tt.state {
					t.Errorf("it is %s, %q", m.State, m.Error)
				}
				for _, room := range []string{"!old:hs", "!new:hs"} {
					if n := len(r.HS.Bodies(room)); n != 0 && room != tt.in || n != 1 && room == tt.in {
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
		then       func(*relaytest.Rig, int64)
	}{
		"restart":          {"x", "m.text", func(r *relaytest.Rig, _ int64) { r.Restart() }},
		"file":             {long, "m.file", func(*relaytest.Rig, int64) {}},
		"file and restart": {long, "m.file", func(r *relaytest.Rig, _ int64) { r.Restart() }},
		"withdrawn": {"x", "m.text", func(r *relaytest.Rig, id int64) {
			m, err := r.Cancel(ctx, r.Admin, id)
			if err != nil || m.State != post.StateCancelled || m.Error != post.InDoubt {
				t.Errorf("it is %s, %q, %v", m.State, m.Error, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				n := 0
				r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
					if !strings.Contains(string(out.Content), tt.kind) {
						return nil
					}
					switch n++; n {
					case 1:
						return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
					case 2: // so that the room is replaced before the next attempt
						return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Minute}}
					}
					return nil
				}
				r.Start()
				synctest.Wait()
				id := r.Post(r.NewApp("a", "!old:hs").Token, tt.text)
				time.Sleep(10 * time.Second)
				r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
				tt.then(r, id)
				time.Sleep(time.Hour)
				found := map[string]int{}
				r.HS.Mu.Lock()
				for room, events := range r.HS.Events {
					for _, e := range events {
						if e.Kind == tt.kind {
							found[room]++
						}
					}
				}
				r.HS.Mu.Unlock()
				if len(found) != 1 || found["!old:hs"] != 1 {
					t.Errorf("it is there %v times", found)
				}
			})
		})
	}
}

// If the bot may not read the old room, the outcome stays unknown: the message is not sent again,
// the question is not asked forever, and the new room is not delayed.
func TestUpgradeWithoutALookBack(t *testing.T) {
	for text, tt := range map[string]struct {
		kind  string
		state post.State
	}{"x": {"m.text", post.StateAmbiguous}, strings.Repeat("long ", 40_000): {"m.file", post.StateSent}} {
		for _, class := range []matrix.Class{matrix.ClassBlock, matrix.ClassJoin, matrix.ClassReconcile} {
			t.Run(tt.kind+" "+string(class), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := relaytest.NewRig(t)
					r.HS.Unfind = map[string]error{"!old:hs": &matrix.SendError{Class: class, Reason: "refused"}}
					r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
						if n > 1 || !strings.Contains(string(out.Content), tt.kind) {
							return nil
						}
						time.AfterFunc(10*time.Millisecond, func() { r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"}) })
						return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
					}
					r.Start()
					synctest.Wait()
					app := r.NewApp("a", "!old:hs")
					id, next := r.Post(app.Token, text), r.Post(app.Token, "next")
					time.Sleep(time.Minute)
					if m := r.Stored(id); m.State != tt.state || !strings.Contains(m.Error, "unknown") {
						t.Errorf("it is %s, %q", m.State, m.Error)
					}
					if m := r.Stored(next); m.State != post.StateSent || m.RoomID != "!new:hs" {
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
		r := relaytest.NewRig(t)
		id := r.Post(r.NewApp("a", "!old:hs").Token, "x")
		time.Sleep(time.Second)
		r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		var txn string
		r.Exec(fmt.Sprintf(`SELECT txn FROM outbox WHERE id = %d`, id), &txn)
		r.HS.Put(matrix.Outgoing{RoomID: "!new:hs", TxnID: txn, Content: []byte(`{"body":"x"}`)})
		if err := r.Options.Store.MarkSuspects(ctx, r.HS.DeviceID); err != nil {
			t.Fatal(err)
		}
		r.Shutdown()
		r.HS.DeviceID = "DEV2"
		r.Open()
		r.Start()
		time.Sleep(time.Minute)
		if m := r.Stored(id); m.State != post.StateSent || len(r.HS.Bodies("!new:hs")) != 1 || len(r.HS.Bodies("!old:hs")) != 0 {
			t.Errorf("it is %s, %q, and in the room %d times", m.State, m.Error, len(r.HS.Bodies("!new:hs")))
		}
	})
}
