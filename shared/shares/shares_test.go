package shares

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A client that holds its share never keeps others from theirs.
func TestPool_Share(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(3, 2)
		within := func(key string, n int64) (*Held, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.Take(ctx, key, n)
		}
		first, err1 := within("slow", 1)
		second, err2 := within("slow", 1)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if _, err := within("slow", 1); err == nil {
			t.Error("one client holds more than its share")
		}
		other, err := within("other", 1)
		if err != nil {
			t.Fatalf("another client: %v", err)
		}
		if _, err := within("third", 1); err == nil {
			t.Error("more is taken than there is")
		}
		other.Release()
		first.Release()
		if first, err = within("slow", 1); err != nil {
			t.Fatalf("after a release: %v", err)
		}
		if _, err := within("other", 5); err == nil {
			t.Error("more than a share needs no whole share")
		}
		if p.Held() != 2 || len(p.clients) != 1 {
			t.Errorf("%d are held by %d clients, want 2 by 1", p.Held(), len(p.clients))
		}
		first.Release()
		second.Release()
		if len(p.clients) != 0 || p.Held() != 0 || !p.all.TryAcquire(3) {
			t.Errorf("%d clients are left, %d are held, or not all is given back", len(p.clients), p.Held())
		}
	})
}

// What is given back early is free for the same client and for others.
func TestHeld_Shrink(t *testing.T) {
	p := New(3, 3)
	held, err := p.Take(t.Context(), "a", 3)
	if err != nil {
		t.Fatal(err)
	}
	held.Shrink(1)
	held.Shrink(2) // never grows
	for _, client := range []string{"a", "b"} {
		if _, err := p.Take(t.Context(), client, 1); err != nil {
			t.Errorf("%s: %v", client, err)
		}
	}
	if held.Release(); p.Held() != 2 || !p.all.TryAcquire(1) {
		t.Errorf("%d are held, want 2 of 3", p.Held())
	}
}
