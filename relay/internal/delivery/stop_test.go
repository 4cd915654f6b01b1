package delivery_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			return &relaytest.Answer{Store: true, Delay: 5 * time.Second}
		}
		r.Start()
		app := r.NewApp("a", "!a:hs")
		id, next := r.Post(app.Token, "x"), r.Post(app.Token, "y")
		time.Sleep(time.Second)
		began := time.Now()
		r.Stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if m := r.Stored(next); m.State != post.StateQueued {
			t.Errorf("the next: %+v", m)
		}
		r.Shutdown()
		r.Open()
		if m := r.Stored(id); m.State != post.StateSent {
			t.Errorf("what was in flight: %+v", m)
		}
		r.HS.Script = nil
		r.Start()
		r.Wait(ctx, r.Admin, next, time.Minute)
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"x", "y"}) {
			t.Errorf("the room has %q", got)
		}
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &relaytest.Answer{Store: true, Delay: time.Hour} }
		r.Start()
		id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
		time.Sleep(time.Second)
		began := time.Now()
		r.Shutdown()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %v", took)
		}
		r.HS.Script = nil
		r.Open()
		r.Start()
		r.Wait(ctx, r.Admin, id, time.Minute)
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"x"}) {
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
		want     post.State
		events   int

		forgets, search bool // the homeserver forgets transactions; Options.SearchFirst
	}{
		{"before the event arrived", false, time.Minute, "DEV", true, post.StateSent, 1, false, false},
		{"after the event arrived", true, time.Minute, "DEV", true, post.StateSent, 1, false, false},
		{"arrived, down for days", true, 48 * time.Hour, "DEV", true, post.StateSent, 1, false, false},
		{"not arrived, down for days", false, 48 * time.Hour, "DEV", true, post.StateSent, 1, false, false},
		{"arrived, new device", true, time.Minute, "NEW", true, post.StateSent, 1, false, false},
		{"not arrived, new device", false, time.Minute, "NEW", true, post.StateSent, 1, false, false},
		{"not arrived, new device, history cut", false, time.Minute, "NEW", false, post.StateAmbiguous, 0, false, false},
		{"arrived, forgotten", true, time.Minute, "DEV", true, post.StateSent, 2, true, false},
		{"arrived, forgotten, searched", true, time.Minute, "DEV", true, post.StateSent, 1, true, true},
		{"not arrived, forgotten, searched", false, time.Minute, "DEV", true, post.StateSent, 1, true, true},
		{"not arrived, forgotten, history cut", false, time.Minute, "DEV", false, post.StateAmbiguous, 0, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.SearchFirst = test.search })
				r.HS.Findable = test.findable
				reached := make(chan struct{}, 1)
				r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
					if test.arrived {
						r.HS.Put(out)
					}
					reached <- struct{}{}
					return &relaytest.Answer{Delay: time.Hour}
				}
				r.Start()
				app := r.NewApp("a", "!a:hs")
				id := r.Post(app.Token, "x")
				<-reached
				r.Kill()
				r.HS.Script = nil
				r.HS.DeviceID = test.device
				if !test.arrived {
					clear(r.HS.Txns)
					clear(r.HS.Events)
				}
				if test.forgets || test.down > 24*time.Hour {
					clear(r.HS.Txns) // forgotten
				}
				time.Sleep(test.down)
				r.Open()
				r.Start()
				next := r.Post(app.Token, "next")
				r.Wait(ctx, r.Admin, next, time.Hour)
				if m := r.Stored(id); m.State != test.want {
					t.Errorf("the message: %+v", m)
				}
				want := append(slices.Repeat([]string{"x"}, test.events), "next")
				if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, want) {
					t.Errorf("the room has %q, want %q", got, want)
				}
				if test.want == post.StateAmbiguous {
					if m, err := r.Redeliver(context.Background(), r.Admin, id); err != nil || !m.State.Pending() {
						t.Fatalf("redeliver: %+v, %v", m, err)
					}
					if m, _ := r.Wait(ctx, r.Admin, id, time.Minute); m.State != post.StateSent {
						t.Errorf("after redelivering: %+v", m)
					}
				}
			})
		})
	}
}
