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
		within := func(key string, n int64) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.Take(ctx, key, n)
		}
		first, err1 := within("slow", 1)
		_, err2 := within("slow", 1)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if _, err := within("slow", 1); err == nil {
			t.Error("one key holds more than its share")
		}
		other, err := within("other", 1)
		if err != nil {
			t.Fatalf("another key: %v", err)
		}
		if _, err := within("third", 1); err == nil {
			t.Error("more places are taken than there are")
		}
		other()
		first()
		if _, err := within("slow", 1); err != nil {
			t.Errorf("after a release: %v", err)
		}
		if _, err := within("other", 5); err == nil {
			t.Error("more than a share needs no whole share")
		}
		if p.Held() != 2 || len(p.keys) != 1 {
			t.Errorf("%d places are held by %d keys, want 2 by 1", p.Held(), len(p.keys))
		}
	})
}
