package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.script = func(Outgoing, int) *answer { return &answer{store: true, delay: 5 * time.Second} }
		r.run()
		app := r.app("a", "!a:hs")
		id, next := r.send(app.Token, "x"), r.send(app.Token, "y")
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if m := r.message(next); m.State != StateQueued {
			t.Errorf("the next: %+v", m)
		}
		r.close()
		r.open()
		if m := r.message(id); m.State != StateSent {
			t.Errorf("what was in flight: %+v", m)
		}
		r.hs.script = nil
		r.run()
		r.Wait(context.Background(), r.admin, next, time.Minute)
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"x", "y"}) {
			t.Errorf("the room has %q", got)
		}
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.script = func(Outgoing, int) *answer { return &answer{store: true, delay: time.Hour} }
		r.run()
		id := r.send(r.app("a", "!a:hs").Token, "x")
		time.Sleep(time.Second)
		began := time.Now()
		r.close()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %v", took)
		}
		r.hs.script = nil
		r.open()
		r.run()
		r.Wait(context.Background(), r.admin, id, time.Minute)
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"x"}) {
			t.Errorf("the room has %q", got)
		}
	})
}

// TestKilled takes an image of the database while an event is in flight, or was just taken, and starts from it.
func TestKilled(t *testing.T) {
	tests := []struct {
		name     string
		arrived  bool
		down     time.Duration
		device   string
		findable bool
		want     State
		events   int
	}{
		{"before the event arrived", false, time.Minute, "DEV", true, StateSent, 1},
		{"after the event arrived", true, time.Minute, "DEV", true, StateSent, 1},
		{"arrived, down for days", true, 48 * time.Hour, "DEV", true, StateSent, 1},
		{"not arrived, down for days", false, 48 * time.Hour, "DEV", true, StateSent, 1},
		{"arrived, new device", true, time.Minute, "NEW", true, StateSent, 1},
		{"not arrived, new device", false, time.Minute, "NEW", true, StateSent, 1},
		{"not arrived, new device, history cut", false, time.Minute, "NEW", false, StateAmbiguous, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.findable = test.findable
				reached := make(chan struct{}, 1)
				r.hs.script = func(out Outgoing, _ int) *answer {
					if test.arrived {
						r.hs.put(out)
					}
					reached <- struct{}{}
					return &answer{delay: time.Hour}
				}
				r.run()
				app := r.app("a", "!a:hs")
				id := r.send(app.Token, "x")
				<-reached
				r.image()
				r.hs.script = nil
				r.hs.device = test.device
				if !test.arrived {
					clear(r.hs.txns)
					clear(r.hs.events)
				}
				if test.down > 24*time.Hour {
					clear(r.hs.txns) // forgotten
				}
				time.Sleep(test.down)
				r.open()
				r.run()
				next := r.send(app.Token, "next")
				r.Wait(context.Background(), r.admin, next, time.Hour)
				if m := r.message(id); m.State != test.want {
					t.Errorf("the message: %+v", m)
				}
				want := append(slices.Repeat([]string{"x"}, test.events), "next")
				if got := r.hs.bodies("!a:hs"); !slices.Equal(got, want) {
					t.Errorf("the room has %q, want %q", got, want)
				}
				if test.want == StateAmbiguous {
					if m, err := r.Redeliver(context.Background(), r.admin, id); err != nil || !m.State.Pending() {
						t.Fatalf("redeliver: %+v, %v", m, err)
					}
					if m, _ := r.Wait(context.Background(), r.admin, id, time.Minute); m.State != StateSent {
						t.Errorf("after redelivering: %+v", m)
					}
				}
			})
		})
	}
}

// TestKilledInTheMiddleOfMany starts from an image that was taken while 300 messages went through three rooms.
func TestKilledInTheMiddleOfMany(t *testing.T) {
	r := newRig(t)
	r.run()
	var tokens []string
	for i := range 3 {
		tokens = append(tokens, r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token)
	}
	var last [3]int64
	for i := range 300 {
		last[i%3] = r.send(tokens[i%3], fmt.Sprint(i))
	}
	r.image()
	r.open()
	r.run()
	for i := range 3 {
		r.await(last[i], StateSent)
		got := r.hs.bodies(fmt.Sprintf("!%d:hs", i))
		if len(got) != 100 {
			t.Errorf("room %d has %d events", i, len(got))
		}
		for k, body := range got {
			if body != fmt.Sprint(3*k+i) {
				t.Errorf("room %d: event %d is %q", i, k, body)
			}
		}
	}
}

// TestNothingIsSentTwice has many senders at once; the homeserver sees each transaction once, and the rooms have the
// messages in the order of their ids.
func TestNothingIsSentTwice(t *testing.T) {
	r := newRig(t)
	r.run()
	var tokens []string
	for i := range 4 {
		tokens = append(tokens, r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 100 {
				r.send(tokens[(g+i)%4], "x")
			}
		})
	}
	wg.Wait()
	r.drained()
	r.stop()
	r.hs.mu.Lock()
	defer r.hs.mu.Unlock()
	if len(r.hs.attempts) != 1600 || r.waiting() != 0 {
		t.Errorf("%d attempts for 1600 messages; %d wait", len(r.hs.attempts), r.waiting())
	}
}
