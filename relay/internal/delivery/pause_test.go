package delivery

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
)

// fault is an error that comes and goes.
type fault struct {
	atomic.Pointer[matrix.SendError]
}

func (f *fault) get() error {
	if err := f.Load(); err != nil {
		return err
	}
	return nil
}

// Sending begins with the first answer, pauses when room after room fails, and continues with the next answer.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away, full fault
		p := newPause(func(context.Context) error { return away.get() }, zap.NewNop())
		stopping, done := make(chan struct{}), make(chan struct{})
		away.Store(&matrix.SendError{Class: matrix.ClassAway, Reason: "no network"})
		go func() {
			defer close(done)
			p.Run(stopping, func() error { return full.get() }, func() {})
		}()
		time.Sleep(time.Minute)
		if reason, _ := p.State(); !p.Closed() || reason != "no network" {
			t.Errorf("before the first answer: paused %v, %q", p.Closed(), reason)
		}
		full.Store(&matrix.SendError{Class: matrix.ClassAway, Reason: "no database"})
		away.Store(nil)
		time.Sleep(time.Minute)
		if reason, _ := p.State(); !p.Closed() || reason != "no database" {
			t.Errorf("sending can't be prepared: paused %v, %q", p.Closed(), reason)
		}
		full.Store(nil)
		if !p.Pass(stopping) || p.Closed() {
			t.Error("still paused after an answer")
		}
		p.Failed(1, "slow")
		p.Failed(1, "slow")
		p.Failed(2, "slow")
		if p.Closed() {
			t.Error("paused because of two rooms")
		}
		p.Succeeded()
		away.Store(&matrix.SendError{Class: matrix.ClassAway, Reason: "gone"}) // until the pause was seen
		for room := range int64(awayRooms) {
			p.Failed(room, "slow")
		}
		synctest.Wait()
		if !p.Closed() {
			t.Error("not paused")
		}
		away.Store(nil)
		if !p.Pass(stopping) {
			t.Error("paused for good")
		}
		p.Suspect("sync hears nothing")
		synctest.Wait()
		if p.Closed() || p.Doubtful() == "" {
			t.Error("paused although the homeserver answers")
		}
		away.Store(&matrix.SendError{Class: matrix.ClassAway, Reason: "gone"})
		p.Suspect("sync hears nothing")
		synctest.Wait()
		if !p.Closed() {
			t.Error("not paused although the homeserver is gone")
		}
		close(stopping)
		<-done
		if p.Pass(stopping) {
			t.Error("passes after the end")
		}
	})
}

// The interval follows from what passes, whatever a homeserver says to each room.
func TestRate_IntervalIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rate
		for range 10 { // two rooms hear what is left of the same 10 s; then two messages pass
			r.Refused(1, 10*time.Second)
			time.Sleep(8 * time.Second)
			r.Refused(2, 2*time.Second)
			time.Sleep(2 * time.Second)
			r.Succeeded()
			r.Succeeded()
		}
		r.Refused(1, 10*time.Second)
		r.Refused(2, time.Second)
		if got := r.Interval(); got != 5*time.Second {
			t.Errorf("interval %v", got)
		}
		time.Sleep(limitShown + 2*time.Second)
		if got := r.Interval(); got != 0 {
			t.Errorf("after the limit: %v", got)
		}
		r.Refused(1, time.Second)
		if got := r.Interval(); got != time.Second {
			t.Errorf("another time of limits: %v", got)
		}
	})
}

// A 429 of a second room without a success between is one of the account: all rooms wait.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rate
		stopping := make(chan struct{})
		took := func() time.Duration {
			began := time.Now()
			r.Wait(stopping)
			return time.Since(began)
		}
		r.Refused(1, time.Minute)
		if d := took(); d >= time.Second {
			t.Errorf("another room waits %v after one 429", d)
		}
		r.Refused(2, time.Minute)
		if d := took(); d < 59*time.Second || r.Interval() != time.Minute {
			t.Errorf("all wait %v, interval %v", d, r.Interval())
		}
		for range paceTrust {
			r.Succeeded()
		}
		if d := took() + took(); d != 0 {
			t.Errorf("after many successes it takes %v", d)
		}
	})
}
