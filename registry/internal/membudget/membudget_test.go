package membudget

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/oci"
)

// A client that holds all of its share waits for itself, and not others for it.
func TestBudget_ShareOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 30)
		var held []func()
		take := func(client string, n int64) error {
			release, err := b.Acquire(t.Context(), client, n)
			if err == nil {
				held = append(held, release)
			}
			return err
		}
		for range 3 {
			if err := take("first", 10); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		err := take("first", 1)
		var e *oci.Error
		if !errors.As(err, &e) || e.Code != oci.CodeUnavailable || e.RetryAfter == 0 || time.Since(begun) != patience {
			t.Errorf("beyond the share: %v after %v", err, time.Since(begun))
		}
		for _, other := range []string{"second", "third"} {
			if err := take(other, 1000); err != nil { // a whole share
				t.Errorf("%s: %v", other, err)
			}
		}
		if err := take("fourth", 1000); err == nil {
			t.Error("more than all of the memory was given away")
		}
		time.AfterFunc(time.Second, held[0])
		held = held[1:]
		if err := take("first", 5); err != nil {
			t.Errorf("after a release: %v", err)
		}
		for _, release := range held {
			release()
		}
		room, err := b.Reserve(t.Context(), "first", 1000)
		if err != nil {
			t.Fatal(err)
		}
		room.Shrink(10)
		room.Shrink(20) // never grows
		if err := take("first", 20); err != nil {
			t.Errorf("after the first has given back most of its share: %v", err)
		}
		held[len(held)-1]()
		room.Release()
		if n := b.pool.Held(); n != 0 {
			t.Errorf("%d bytes aren't given back", n)
		}
	})
}
