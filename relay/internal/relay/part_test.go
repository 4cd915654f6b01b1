package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
)

// withParts lets long messages be split.
func withParts(o *Options) { o.Format.MaxEvents = 8 }

// report is a message of several parts, each of whose lines is in it once.
func report(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "- line **%d** of the report\n", i)
	}
	return b.String()
}

// wantReport holds the room against a report and a message behind it.
func (r *rig) wantReport(lines, events int, next string) {
	r.t.Helper()
	bodies := r.hs.bodies("!a:hs")
	if len(bodies) != events+1 || bodies[len(bodies)-1] != next {
		r.t.Fatalf("the room has %d events, the last begins %.20q", len(bodies), bodies[max(0, len(bodies)-1)])
	}
	n := 0
	for _, body := range bodies[:events] {
		for _, line := range strings.Split(body, "\n") {
			if want := fmt.Sprintf("• line %d of the report", n); line != want {
				r.t.Fatalf("line %d is %q, want %q", n, line, want)
			}
			n++
		}
	}
	if n != lines {
		r.t.Errorf("%d lines arrived, want %d", n, lines)
	}
}

// TestParts: a long message arrives in several events, in order, whole, before the next message.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withParts)
		r.run()
		synctest.Wait()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, report(3000))
		next := r.send(app.Token, "next")
		if m, err := r.Wait(ctx, r.admin, next, time.Minute); err != nil || m.State != StateSent {
			t.Fatalf("%+v, %v", m, err)
		}
		r.wantReport(3000, 5, "next")
		m := r.message(id)
		if m.State != StateSent || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if events, file := r.Shape(m); events != 5 || file {
			t.Errorf("it is said to be %d events, file %v", events, file)
		}
		if _, err := r.Cancel(ctx, r.admin, id); err != nil {
			t.Fatal(err)
		}
		r.drained()
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
			t.Errorf("after it was withdrawn the room has %d events", len(got))
		}
	})
}

// TestPartsSurvive: each part is in the room once, whatever happens to the answers and to the relay.
func TestPartsSurvive(t *testing.T) {
	for name, tt := range map[string]struct{ stored, crash, device bool }{
		"answer lost": {stored: true}, "not sent": {}, "killed after sending": {stored: true, crash: true}, "killed before": {crash: true},
		"killed, another device": {stored: true, crash: true, device: true}, "answer lost, another device": {stored: true, device: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, withParts)
				r.hs.script = func(out Outgoing, n int) *answer {
					if strings.HasSuffix(out.TxnID, "p2") && n == 1 {
						if tt.device {
							time.AfterFunc(time.Millisecond, func() {
								r.hs.mu.Lock()
								r.hs.device = "DEV2"
								r.hs.mu.Unlock()
							})
						}
						return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: tt.stored}
					}
					return nil
				}
				r.run()
				synctest.Wait()
				app := r.app("a", "!a:hs")
				r.send(app.Token, report(3000))
				next := r.send(app.Token, "next")
				if tt.crash {
					time.Sleep(100 * time.Millisecond)
					r.crash()
					r.open()
					r.run()
				}
				if m, err := r.Wait(ctx, r.admin, next, time.Hour); err != nil || m.State != StateSent {
					t.Fatalf("%+v, %v", m, err)
				}
				r.wantReport(3000, 5, "next")
			})
		})
	}
}

// TestParts_KilledBeforeAnUpgrade_AllArrive: the first part is found in the room that was replaced, and the others follow.
func TestParts_KilledBeforeAnUpgrade_AllArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withParts)
		r.hs.script = func(_ Outgoing, n int) *answer {
			if n > 1 {
				return nil
			}
			return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: true}
		}
		r.run()
		synctest.Wait()
		id := r.send(r.app("a", "!old:hs").Token, report(3000))
		time.Sleep(100 * time.Millisecond)
		r.crash()
		r.exec(`UPDATE outbox SET wire = NULL, cut = false, attempts = 0, state = 'queued', first_attempt_at = 0, device = ''`) // of the attempt nothing was stored
		r.hs.script = nil
		r.open()
		r.delivery.Load().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		r.run()
		r.await(id, StateSent)
		r.drained()
		if old, now := len(r.hs.bodies("!old:hs")), len(r.hs.bodies("!new:hs")); old != 1 || now != 4 {
			t.Errorf("%d parts in the old room, %d in the new one", old, now)
		}
	})
}

// TestParts_WithdrawnInDoubt_AllAreRemoved: a part whose answer was lost is removed with the others.
func TestParts_WithdrawnInDoubt_AllAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withParts)
		r.hs.script = func(out Outgoing, n int) *answer {
			if strings.HasSuffix(out.TxnID, "p1") && n == 1 {
				return &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: true}
			}
			return nil
		}
		r.run()
		synctest.Wait()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, report(3000))
		time.Sleep(100 * time.Millisecond)
		if n := len(r.hs.bodies("!a:hs")); n != 2 {
			t.Fatalf("%d parts are in the room", n)
		}
		if _, err := r.Cancel(ctx, r.admin, id); err != nil {
			t.Fatal(err)
		}
		next := r.send(app.Token, "next")
		r.await(next, StateSent)
		r.drained()
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
			t.Errorf("%d events are in the room", len(got))
		}
		if m := r.message(id); m.State != StateRedacted || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
	})
}

// TestPartRefused: what is refused of a message arrives as a file.
func TestPartRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withParts)
		r.hs.script = func(out Outgoing, _ int) *answer {
			if strings.HasSuffix(out.TxnID, "p1") {
				return &answer{err: &SendError{Class: ClassDead, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"}}
			}
			return nil
		}
		r.run()
		synctest.Wait()
		id := r.send(r.app("a", "!a:hs").Token, report(3000))
		time.Sleep(time.Minute)
		if m := r.message(id); m.State != StateSent || !strings.Contains(m.Error, "does not accept the event") {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if got := r.hs.bodies("!a:hs"); len(got) != 2 || got[1] != "message.md" {
			t.Errorf("the room has %.20q", got)
		}
	})
}
