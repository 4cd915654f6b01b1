package account

import (
	"fmt"
	"testing"
	"testing/synctest"

	"slipway/relay/internal/refusal"
)

// Logins that would wait for too many others are turned away. Some addresses can neither take the places of others, nor those of a
// caller who proved to be somebody.
func TestVerify_TooManyAtOnce_IsUnavailable(t *testing.T) {
	h := newHasher(0)
	defer h.rest.Stop()
	var leave []func()
	flood := func(address string, proven bool) (taken int) {
		for range 2 * argonWaiting {
			if l, ok := h.enter(caller{address, proven}); ok {
				leave = append(leave, l)
				taken++
			}
		}
		return taken
	}
	for i := range 3 {
		if n := flood(fmt.Sprintf("2001:db8:0:%d::%d", i, i), false); n != argonShare {
			t.Errorf("one address takes %d places", n)
		}
	}
	if n := flood("2001:db8:0:1::ffff", false); n != 0 {
		t.Errorf("the same network takes %d more places", n)
	}
	verify := func(from caller) error {
		_, err := h.Verify(t.Context(), from, "password", h.Unusable())
		return err
	}
	if err := verify(caller{Address: "192.0.2.1"}); err != nil {
		t.Errorf("another address: %v", err)
	}
	for i := range 100 {
		flood(fmt.Sprintf("198.51.100.%d", i), false)
	}
	if err := verify(caller{Address: "192.0.2.1"}); refusal.KindOf(err) != refusal.KindUnavailable {
		t.Errorf("with all places taken: %v", err)
	}
	for _, address := range []string{"192.0.2.1", "198.51.100.1", ""} {
		if err := verify(caller{address, true}); err != nil {
			t.Errorf("somebody who was right before, at %q: %v", address, err)
		}
	}
	if n := flood("192.0.2.1", true); n != argonReserve {
		t.Errorf("%d places are reserved", n)
	}
	for _, l := range leave {
		l()
	}
	if h.waiting.all+h.reserve.all+len(h.waiting.at)+len(h.reserve.at) != 0 {
		t.Errorf("places are still taken: %+v, %+v", h.waiting, h.reserve)
	}
	if ok, err := h.Verify(t.Context(), caller{}, "password", h.Unusable()); ok || err != nil {
		t.Errorf("an unusable hash: %v, %v", ok, err)
	}
	hash, err := h.Hash(t.Context(), "password")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.Verify(t.Context(), caller{}, "password", hash); !ok || err != nil {
		t.Errorf("its own hash: %v, %v", ok, err)
	}
}

// An address has one turn at a time, so that a login waits for one of each other address at most, however many wait there.
func TestVerify_TakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(64)
		defer h.rest.Stop()
		guesser := caller{Address: "192.0.2.1"}
		slot, err := h.slots.Take(t.Context(), guesser.turn(), 1) // as if a hash took its time
		if err != nil {
			t.Fatal(err)
		}
		verify := func(from caller) {
			if _, err := h.Verify(t.Context(), from, "password", h.Unusable()); err != nil {
				t.Error(err)
			}
		}
		done := make(chan struct{})
		go func() { verify(guesser); close(done) }()
		synctest.Wait()
		verify(caller{Address: "192.0.2.2"})
		verify(caller{Address: "192.0.2.1", Proven: true})
		select {
		case <-done:
			t.Error("an address has two turns")
		default:
		}
		slot.Release()
		<-done
	})
}
