package request

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A client that holds its share never keeps others from theirs.
func TestPlaces_Share(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(3, 2)
		within := func(key string) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.Take(ctx, key)
		}
		first, err1 := within("slow")
		_, err2 := within("slow")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if _, err := within("slow"); err == nil {
			t.Error("one key holds more than its share")
		}
		other, err := within("other")
		if err != nil {
			t.Fatalf("another key: %v", err)
		}
		if _, err := within("third"); err == nil {
			t.Error("more places are taken than there are")
		}
		other()
		first()
		if _, err := within("slow"); err != nil {
			t.Errorf("after a release: %v", err)
		}
		if p.Held() != 2 || len(p.keys) != 1 {
			t.Errorf("%d places are held by %d keys, want 2 by 1", p.Held(), len(p.keys))
		}
	})
}
