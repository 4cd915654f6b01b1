package relay

import (
	"sync"
	"testing"

	"slipway/relay/internal/intake"
)

// TestBulk: all that a filter selects, at most so many at once, and of what one may see.
func TestBulk(t *testing.T) {
	r := newRig(t)
	app, other := r.app("a", "!a:hs"), r.app("b", "!b:hs")
	var senders sync.WaitGroup // at once, for they share their flushes
	for range intake.MaxBulk + 3 {
		senders.Go(func() { r.send(app.Token, "m") })
	}
	senders.Wait()
	kept := r.send(other.Token, "m")
	f := MessageFilter{States: []State{StateQueued}}
	v, err := r.TokenViewer(ctx, app.Token)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []intake.Bulk{{Done: intake.MaxBulk, More: true}, {Done: 3}, {}} {
		if got, err := r.CancelAll(ctx, v, f); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	if m := r.message(kept); m.State != StateQueued {
		t.Errorf("another application's message is %s", m.State)
	}
	if _, err := r.CancelAll(ctx, v, MessageFilter{}); KindOf(err) != KindInvalid {
		t.Errorf("without states: %v", err)
	}
	if _, err := r.RedeliverAll(ctx, v, f); KindOf(err) != KindInvalid {
		t.Errorf("what waits is delivered again: %v", err)
	}
	if got, err := r.RedeliverAll(ctx, v, MessageFilter{States: []State{StateCancelled}}); err != nil || got.Done != intake.MaxBulk || !got.More {
		t.Errorf("delivered again: %+v, %v", got, err)
	}
}
