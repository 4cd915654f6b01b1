package delivery_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// TestReplayOfAForgottenMessage: the key is remembered longer than the message.
func TestReplayOfAForgottenMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Retention = time.Hour })
		app := r.NewApp("a", "!a:hs")
		r.Start()
		in := post.Draft{Token: app.Token, Content: post.Content{Body: "once"}, IdempotencyKey: "k"}
		first := r.Send(in)
		r.Await(first.ID, post.StateSent)
		if again, err := r.Accept(ctx, in); err != nil || !again.Replay || again.State != post.StateSent || again.EventID == "" {
			t.Errorf("while it is there: %+v, %v", again, err)
		}
		time.Sleep(2*time.Hour + service.MaintenanceInterval)
		again, err := r.Accept(ctx, in)
		if err != nil || !again.Replay || again.ID != first.ID || again.State != post.StateForgotten {
			t.Errorf("when it is removed: %+v, %v", again, err)
		}
		if got := r.HS.Bodies("!a:hs"); len(got) != 1 {
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
		state            post.State
		doubt            bool
		left             int // events in the room in the end
	}{
		{"it arrived", true, true, post.StateRedacted, false, 0},
		{"it did not", false, true, post.StateCancelled, false, 0},
		{"nobody knows", false, false, post.StateCancelled, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				app := r.NewApp("a", "!a:hs")
				r.HS.Findable = tt.history
				r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
					return &relaytest.Answer{Store: tt.arrived, Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "The answer was lost."}}
				}
				id := r.Post(app.Token, "text")
				r.Start()
				r.Await(id, post.StateRetryWait)
				m, err := r.Cancel(ctx, r.Admin, id)
				if err != nil || m.State != post.StateCancelled || m.Error != post.InDoubt {
					t.Errorf("withdrawn: %+v, %v", m, err)
				}
				time.Sleep(time.Minute) // the room is asked
				if m = r.Stored(id); (m.Error == post.InDoubt) != tt.doubt {
					t.Errorf("after the room was asked: %+v", m)
				}
				if m = r.Await(id, tt.state); tt.state == post.StateRedacted && m.EventID == "" {
					t.Errorf("redacted: %+v", m)
				}
				if got := r.HS.Bodies("!a:hs"); len(got) != tt.left {
					t.Errorf("the room has %q", got)
				}
				r.Drained()
			})
		})
	}
}

// TestCountsAfterACrash: the totals of an application are right, with what the retention has removed.
func TestCountsAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Retention = time.Hour })
		app, other := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		r.Start()
		for range 3 {
			r.Await(r.Post(app.Token, "old"), post.StateSent)
		}
		time.Sleep(2*time.Hour + service.MaintenanceInterval) // all of these are removed
		r.Await(r.Post(app.Token, "new"), post.StateSent)
		r.Await(r.Post(other.Token, "other"), post.StateSent)
		withdrawn := r.Post(app.Token, "withdrawn")
		r.Await(withdrawn, post.StateSent)
		r.Withdraw(withdrawn)
		r.Await(withdrawn, post.StateRedacted)
		time.Sleep(10 * time.Second)
		r.Crash()
		r.Open()
		for _, want := range []struct{ id, sent int64 }{{app.Application.ID, 5}, {other.Application.ID, 1}} {
			got, err := r.Application(ctx, r.Admin, want.id)
			if err != nil || got.Sent != want.sent || got.Accepted != want.sent {
				t.Errorf("application %d: %d sent, %d accepted, %v; want %d", want.id, got.Sent, got.Accepted, err, want.sent)
			}
		}
	})
}

// What was withdrawn while its first attempt was in flight is removed from the room, though the relay is killed before the answer.
func TestWithdrawn_InFlight_KilledThen_IsRemoved(t *testing.T) {
	for name, text := range map[string]string{"a message": "secret", "its file": strings.Repeat("secret ", 40_000)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relaytest.SQLiteOnly(t)
				r := relaytest.NewRig(t)
				app := r.NewApp("a", "!a:hs")
				r.Start()
				r.Await(r.Post(app.Token, "first"), post.StateSent)
				r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
					if len(text) > 100 && len(r.HS.Bodies("!a:hs")) == 1 {
						return nil // the message itself; its file comes next
					}
					r.HS.Put(out)
					return &relaytest.Answer{Delay: 20 * time.Second}
				}
				id := r.Post(app.Token, text)
				time.Sleep(10 * time.Second)
				r.Withdraw(id)
				r.Kill()
				r.HS.Script = nil
				r.Open()
				r.Start()
				time.Sleep(time.Hour)
				if m := r.Stored(id); m.State != post.StateRedacted || m.Error != "" {
					t.Errorf("%s, %q", m.State, m.Error)
				}
				if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"first"}) {
					t.Errorf("the room has %d events, want one", len(got))
				}
				r.Drained()
			})
		})
	}
}
