package service_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
)

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			return &relaytest.Answer{Store: true, Delay: 2 * time.Second}
		}
		first, second, third := r.Post(app.Token, "one"), r.Post(app.Token, "two"), r.Post(app.Token, "three")
		r.Start()
		time.Sleep(time.Second)
		if m, err := r.Cancel(ctx, r.Admin, second); err != nil || m.State != post.StateCancelled {
			t.Errorf("cancel one that waits: %+v, %v", m, err)
		}
		if m, err := r.Cancel(ctx, r.Admin, second); err != nil || m.State != post.StateCancelled {
			t.Errorf("cancel it again: %+v, %v", m, err)
		}
		if m, err := r.Cancel(ctx, r.Admin, first); err != nil || m.State != post.StateCancelled {
			t.Errorf("withdraw one in flight: %+v, %v", m, err)
		}
		if m, _ := r.Wait(ctx, r.Admin, third, time.Minute); m.State != post.StateSent {
			t.Errorf("the third: %+v", m)
		}
		if m := r.Await(first, post.StateRedacted); m.EventID == "" || m.SentAt().IsZero() || m.Error != "" {
			t.Errorf("redacted: %+v", m)
		}
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"three"}) {
			t.Errorf("the room has %q", got)
		}
		if m, err := r.Redeliver(ctx, r.Admin, second); err != nil || !m.State.Pending() {
			t.Errorf("redeliver the cancelled one: %+v, %v", m, err)
		}
		if m, _ := r.Wait(ctx, r.Admin, second, time.Minute); m.State != post.StateSent {
			t.Errorf("redelivered: %+v", m)
		}
		if _, err := r.Redeliver(ctx, r.Admin, second); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("redeliver one that is sent: %v", err)
		}
		r.Drained()
	})
}

func TestRedeliverBringsTheNextAttemptForward(t *testing.T) {
	tests := map[string]struct {
		fault relaytest.Answer
		want  time.Duration
	}{
		"blocked":      {relaytest.Fails(matrix.ClassBlock), time.Second},
		"told to wait": {relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Hour}}, time.Hour},
	}
	for name, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := relaytest.NewRig(t)
			r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
				if len(r.HS.Times("!a:hs")) == 1 {
					return &test.fault
				}
				return nil
			}
			r.Start()
			app := r.NewApp("a", "!a:hs")
			r.Post(app.Token, "first")
			id := r.Post(app.Token, "second")
			time.Sleep(time.Second)
			if m, err := r.Redeliver(ctx, r.Admin, id); err != nil || !m.State.Pending() {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
			began := time.Now()
			m, _ := r.Wait(ctx, r.Admin, id, 2*time.Hour)
			if took := time.Since(began); m.State != post.StateSent || took > test.want || took < test.want-2*time.Second {
				t.Errorf("%s: %q after %v, want %v", name, m.State, took, test.want)
			}
		})
	}
}

// What was withdrawn, or is gone, is not edited, whatever the intake has seen of it a moment before.
func TestEdit_WithdrawnMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		r.Start()
		id := r.Post(app.Token, "secret")
		m := r.Await(id, post.StateSent)
		edit := post.Entry{Kind: post.KindEdit, State: post.StateQueued, Origin: m.Origin, QueuedAt: m.QueuedAt, Content: post.Content{Body: "another"}}
		edit.Target = id
		if gone, err := r.StoreEdit(ctx, edit); err != nil || gone {
			t.Errorf("before: gone is %v, %v", gone, err)
		}
		r.Drained()
		r.Withdraw(id)
		for _, target := range []int64{id, id + 1000} {
			edit.Target = target
			if gone, err := r.StoreEdit(ctx, edit); err != nil || !gone {
				t.Errorf("an edit of %d: gone is %v, %v", target, gone, err)
			}
		}
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); slices.Contains(got, "another") {
			t.Errorf("the room has %q", got)
		}
	})
}
