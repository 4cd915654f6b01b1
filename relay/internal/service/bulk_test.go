package service_test

import (
	"sync"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// TestBulk: a bulk change covers the filter's messages that the principal may see, up to a limit at a time.
func TestBulk(t *testing.T) {
	r := relaytest.NewRig(t)
	app, other := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
	var senders sync.WaitGroup // at once, for they share their flushes
	for range service.MaxBulk + 3 {
		senders.Go(func() { r.Post(app.Token, "m") })
	}
	senders.Wait()
	kept := r.Post(other.Token, "m")
	f := service.Filter{States: []post.State{post.StateQueued}}
	v, err := r.TokenViewer(ctx, app.Token)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []service.Bulk{{Done: service.MaxBulk, More: true}, {Done: 3}, {}} {
		if got, err := r.CancelAll(ctx, v, f); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	if m := r.Stored(kept); m.State != post.StateQueued {
		t.Errorf("another application's message is %s", m.State)
	}
	if _, err := r.CancelAll(ctx, v, service.Filter{}); refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("without states: %v", err)
	}
	if _, err := r.RedeliverAll(ctx, v, f); refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("what waits is delivered again: %v", err)
	}
	if got, err := r.RedeliverAll(ctx, v, service.Filter{States: []post.State{post.StateCancelled}}); err != nil || got.Done != service.MaxBulk || !got.More {
		t.Errorf("delivered again: %+v, %v", got, err)
	}
}
