package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/message"
)

// TestReplayOfAForgottenMessage: the key is remembered longer than the message.
func TestReplayOfAForgottenMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Retention = time.Hour })
		app := r.app("a", "!a:hs")
		r.run()
		in := AcceptRequest{Token: app.Token, Message: "once", IdempotencyKey: "k", NativeScale: true}
		first, err := r.Accept(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		r.await(first.ID, StateSent)
		if again, err := r.Accept(ctx, in); err != nil || !again.Replay || again.State != StateSent || again.EventID == "" {
			t.Errorf("while it is there: %+v, %v", again, err)
		}
		time.Sleep(2*time.Hour + maintainEvery)
		again, err := r.Accept(ctx, in)
		if err != nil || !again.Replay || again.ID != first.ID || again.State != StateForgotten {
			t.Errorf("when it is removed: %+v, %v", again, err)
		}
		if got := r.hs.bodies("!a:hs"); len(got) != 1 {
			t.Errorf("the room has %q", got)
		}
	})
}

// TestCancelInDoubt: the answer to an attempt was lost, and then the message is
// withdrawn.
func TestCancelInDoubt(t *testing.T) {
	for _, tt := range []struct {
		name             string
		arrived, history bool // the event came into the room; the room's history can be read to its end
		state            State
		doubt            bool
		left             int // events in the room in the end
	}{
		{"it arrived", true, true, StateRedacted, false, 0},
		{"it did not", false, true, StateCancelled, false, 0},
		{"nobody knows", false, false, StateCancelled, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				app := r.app("a", "!a:hs")
				r.hs.findable = tt.history
				r.hs.script = func(Outgoing, int) *answer {
					return &answer{store: tt.arrived, err: &SendError{Class: ClassRetry, Reason: "The answer was lost."}}
				}
				id := r.send(app.Token, "text")
				r.run()
				r.await(id, StateRetryWait)
				m, err := r.Cancel(ctx, r.admin, id)
				if err != nil || m.State != StateCancelled || m.Error != message.InDoubt {
					t.Errorf("withdrawn: %+v, %v", m, err)
				}
				time.Sleep(time.Minute) // the room is asked
				if m = r.message(id); (m.Error == message.InDoubt) != tt.doubt {
					t.Errorf("after the room was asked: %+v", m)
				}
				if m = r.await(id, tt.state); tt.state == StateRedacted && m.EventID == "" {
					t.Errorf("redacted: %+v", m)
				}
				if got := r.hs.bodies("!a:hs"); len(got) != tt.left {
					t.Errorf("the room has %q", got)
				}
				r.drained()
			})
		})
	}
}

// TestCountsAfterACrash: the totals of an application are right again, with what
// the retention has removed.
func TestCountsAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Retention = time.Hour })
		app, other := r.app("a", "!a:hs"), r.app("b", "!b:hs")
		r.run()
		for range 3 {
			r.await(r.send(app.Token, "old"), StateSent)
		}
		time.Sleep(2*time.Hour + maintainEvery) // all of these are removed
		r.await(r.send(app.Token, "new"), StateSent)
		r.await(r.send(other.Token, "other"), StateSent)
		withdrawn := r.send(app.Token, "withdrawn")
		r.await(withdrawn, StateSent)
		if _, err := r.Cancel(ctx, r.admin, withdrawn); err != nil {
			t.Fatal(err)
		}
		r.await(withdrawn, StateRedacted)
		time.Sleep(10 * time.Second)
		// What a kill loses: counts that were not written yet.
		r.crash()
		r.exec(`UPDATE applications SET sent = sent - 1, accepted = accepted - 1`)
		r.open()
		for _, want := range []struct{ id, sent int64 }{{app.Application.ID, 5}, {other.Application.ID, 1}} {
			got, err := r.Application(ctx, r.admin, want.id)
			if err != nil || got.Sent != want.sent || got.Accepted != want.sent {
				t.Errorf("application %d: %d sent, %d accepted, %v; want %d", want.id, got.Sent, got.Accepted, err, want.sent)
			}
		}
	})
}
