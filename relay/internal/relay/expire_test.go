package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
)

// What is given up while nothing is tried counts like what is given up elsewhere.
func TestGivenUpWhileNothingIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Delivery.MaxAge = time.Hour })
		r.hs.probeErr = &SendError{Class: ClassAway, Reason: "away"}
		r.run()
		synctest.Wait()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, "x")
		m, err := r.Wait(ctx, r.admin, id, 2*time.Hour)
		if err != nil || m.State != StateDead {
			t.Fatalf("%+v, %v", m, err)
		}
		time.Sleep(2 * time.Second) // counts are written once a second
		a, _ := r.Application(ctx, r.admin, app.Application.ID)
		var dead int64
		hours, _ := r.Hours(ctx, r.admin)
		for _, h := range hours {
			dead += h.Dead
		}
		if a.Dead != 1 || dead != 1 {
			t.Errorf("given up are %d of the application and %d of all, want the one", a.Dead, dead)
		}
	})
}

// A message that is in its room and waits for its file becomes final, though the room
// is encrypted meanwhile and gets nothing any more.
func TestFileThatNeverFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Delivery.MaxAge = time.Hour })
		r.run()
		synctest.Wait()
		r.hs.script = func(_ Outgoing, _ int) *answer {
			r.delivery.Load().Handle(matrix.Encrypted{Room: "!a:hs"}) // as soon as the event is there
			return nil
		}
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, strings.Repeat("long ", 40_000))
		time.Sleep(2 * time.Hour)
		m := r.message(id)
		if m.State != StateSent || m.Error == "" || r.Status(ctx).Waiting != 0 {
			t.Errorf("%s, %q; %d wait", m.State, m.Error, r.Status(ctx).Waiting)
		}
	})
}

// A message that was to be removed from its room and could not be in time says so.
func TestRemovalThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Delivery.MaxAge = time.Hour })
		r.run()
		synctest.Wait()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, "x")
		r.await(id, StateSent)
		r.hs.mu.Lock()
		r.hs.unredact = &SendError{Class: ClassRetry, Reason: "the connection to the homeserver broke"}
		r.hs.mu.Unlock()
		if _, err := r.Cancel(ctx, r.admin, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		m := r.message(id)
		if m.State != StateSent || m.Error == "" || r.Status(ctx).Waiting != 0 {
			t.Errorf("%s, %q; %d wait", m.State, m.Error, r.Status(ctx).Waiting)
		}
		if a, _ := r.Application(ctx, r.admin, app.Application.ID); a.Dead != 0 {
			t.Errorf("%d messages are told as given up", a.Dead)
		}
	})
}

// What is given up behind a message that failed to the end says why, too.
func TestGivenUpSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Delivery.MaxAge = time.Hour })
		r.hs.script = func(Outgoing, int) *answer {
			return &answer{err: &SendError{Class: ClassRetry, Status: 500, Reason: "the homeserver failed"}}
		}
		r.run()
		synctest.Wait()
		app := r.app("a", "!a:hs")
		var ids []int64
		for range 50 {
			ids = append(ids, r.send(app.Token, "x"))
		}
		time.Sleep(2 * time.Hour)
		for _, id := range ids {
			if m := r.message(id); m.State != StateDead || !strings.Contains(m.Error, "the homeserver failed") {
				t.Fatalf("message %d is %s: %q", id, m.State, m.Error)
			}
		}
	})
}
