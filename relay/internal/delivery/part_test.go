package delivery_test

import (
	"fmt"
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

// withParts lets long messages be split.
func withParts(o *service.Options) { o.Format.MaxEvents = 8 }

// report returns a message of several parts in which each line occurs once.
func report(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "- line **%d** of the report\n", i)
	}
	return b.String()
}

// wantReport holds the room against a report and a message behind it.
func wantReport(r *relaytest.Rig, lines, events int, next string) {
	r.T.Helper()
	bodies := r.HS.Bodies("!a:hs")
	if len(bodies) != events+1 || bodies[len(bodies)-1] != next {
		r.T.Fatalf("the room has %d events, the last begins %.20q", len(bodies), bodies[max(0, len(bodies)-1)])
	}
	n := 0
	for _, body := range bodies[:events] {
		for _, line := range strings.Split(body, "\n") {
			if want := fmt.Sprintf("• line %d of the report", n); line != want {
				r.T.Fatalf("line %d is %q, want %q", n, line, want)
			}
			n++
		}
	}
	if n != lines {
		r.T.Errorf("%d lines arrived, want %d", n, lines)
	}
}

// TestParts: a long message arrives in several events, in order, whole, before the next message.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withParts)
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, report(2100))
		next := r.Post(app.Token, "next")
		if m, err := r.Wait(ctx, r.Admin, next, time.Minute); err != nil || m.State != post.StateSent {
			t.Fatalf("%+v, %v", m, err)
		}
		wantReport(r, 2100, 5, "next")
		m := r.Stored(id)
		if m.State != post.StateSent || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if events, file, err := r.Shape(ctx, m); err != nil || events != 5 || file {
			t.Errorf("it is said to be %d events, file %v, %v", events, file, err)
		}
		r.Withdraw(id)
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
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
				r := relaytest.NewRig(t, withParts)
				r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
					if strings.HasSuffix(out.TxnID, "p2") && n == 1 {
						if tt.device {
							time.AfterFunc(time.Millisecond, func() {
								r.HS.Do(func() { r.HS.DeviceID = "DEV2" })
							})
						}
						return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: tt.stored}
					}
					return nil
				}
				r.Start()
				synctest.Wait()
				app := r.NewApp("a", "!a:hs")
				r.Post(app.Token, report(2100))
				next := r.Post(app.Token, "next")
				if tt.crash {
					time.Sleep(100 * time.Millisecond)
					r.Recover()
				}
				if m, err := r.Wait(ctx, r.Admin, next, time.Hour); err != nil || m.State != post.StateSent {
					t.Fatalf("%+v, %v", m, err)
				}
				wantReport(r, 2100, 5, "next")
			})
		})
	}
}

// TestParts_KilledBeforeAnUpgrade_AllArrive: the first part is found in the room that was replaced, and the others follow.
func TestParts_KilledBeforeAnUpgrade_AllArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withParts)
		r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
			if n > 1 {
				return nil
			}
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
		}
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!old:hs").Token, report(2100))
		time.Sleep(100 * time.Millisecond)
		r.Crash()
		r.Exec(`UPDATE outbox SET wire = NULL, cut = false, attempts = 0, state = 'queued', next_at = 0, first_attempt_at = 0, device = ''`) // of the attempt nothing was stored
		r.HS.Script = nil
		r.Open()
		r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		r.Start()
		r.Await(id, post.StateSent)
		r.Drained()
		if old, now := len(r.HS.Bodies("!old:hs")), len(r.HS.Bodies("!new:hs")); old != 1 || now != 4 {
			t.Errorf("%d parts in the old room, %d in the new one", old, now)
		}
	})
}

// TestParts_WithdrawnInDoubt_AllAreRemoved: a part whose answer was lost is removed with the others.
func TestParts_WithdrawnInDoubt_AllAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withParts)
		r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
			if strings.HasSuffix(out.TxnID, "p1") && n == 1 {
				return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
			}
			return nil
		}
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, report(2100))
		time.Sleep(100 * time.Millisecond)
		if n := len(r.HS.Bodies("!a:hs")); n != 2 {
			t.Fatalf("%d parts are in the room", n)
		}
		r.Withdraw(id)
		next := r.Post(app.Token, "next")
		r.Await(next, post.StateSent)
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
			t.Errorf("%d events are in the room", len(got))
		}
		if m := r.Stored(id); m.State != post.StateRedacted || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
	})
}

// TestPartRefused: what is refused of a message arrives as a file.
func TestPartRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withParts)
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			if strings.HasSuffix(out.TxnID, "p1") {
				return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"}}
			}
			return nil
		}
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!a:hs").Token, report(2100))
		time.Sleep(time.Minute)
		if m := r.Stored(id); m.State != post.StateSent || !strings.Contains(m.Error, "does not accept the event") {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if got := r.HS.Bodies("!a:hs"); len(got) != 2 || got[1] != "message.md" {
			t.Errorf("the room has %.20q", got)
		}
	})
}
