package relay

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		app := r.app("a", "!a:hs")
		r.hs.script = func(out Outgoing, _ int) *answer { return &answer{store: true, delay: 2 * time.Second} }
		first, second, third := r.send(app.Token, "one"), r.send(app.Token, "two"), r.send(app.Token, "three")
		r.run()
		time.Sleep(time.Second)
		if m, err := r.Cancel(ctx, r.admin, second); err != nil || m.State != StateCancelled {
			t.Errorf("cancel one that waits: %+v, %v", m, err)
		}
		if m, err := r.Cancel(ctx, r.admin, second); err != nil || m.State != StateCancelled {
			t.Errorf("cancel it again: %+v, %v", m, err)
		}
		if m, err := r.Cancel(ctx, r.admin, first); err != nil || m.State != StateCancelled {
			t.Errorf("withdraw one in flight: %+v, %v", m, err)
		}
		if m, _ := r.Wait(ctx, r.admin, third, time.Minute); m.State != StateSent {
			t.Errorf("the third: %+v", m)
		}
		if m := r.await(first, StateRedacted); m.EventID == "" || m.SentAt.IsZero() || m.Error != "" {
			t.Errorf("redacted: %+v", m)
		}
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"three"}) {
			t.Errorf("the room has %q", got)
		}
		if m, err := r.Redeliver(ctx, r.admin, second); err != nil || !m.State.Pending() {
			t.Errorf("redeliver the cancelled one: %+v, %v", m, err)
		}
		if m, _ := r.Wait(ctx, r.admin, second, time.Minute); m.State != StateSent {
			t.Errorf("redelivered: %+v", m)
		}
		if _, err := r.Redeliver(ctx, r.admin, second); KindOf(err) != KindConflict {
			t.Errorf("redeliver one that is sent: %v", err)
		}
		r.drained()
	})
}

func TestRedeliverBringsTheNextAttemptForward(t *testing.T) {
	tests := map[string]struct {
		fault answer
		want  time.Duration
	}{
		"blocked":      {class(ClassBlock), time.Second},
		"told to wait": {answer{err: &SendError{Class: ClassWait, RetryAfter: time.Hour}}, time.Hour},
	}
	for name, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.hs.script = func(Outgoing, int) *answer {
				if len(r.hs.times("!a:hs")) == 1 {
					return &test.fault
				}
				return nil
			}
			r.run()
			app := r.app("a", "!a:hs")
			r.send(app.Token, "first")
			id := r.send(app.Token, "second")
			time.Sleep(time.Second)
			if m, err := r.Redeliver(ctx, r.admin, id); err != nil || !m.State.Pending() {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
			began := time.Now()
			m, _ := r.Wait(ctx, r.admin, id, 2*time.Hour)
			if took := time.Since(began); m.State != StateSent || took > test.want || took < test.want-2*time.Second {
				t.Errorf("%s: %q after %v, want %v", name, m.State, took, test.want)
			}
		})
	}
}
