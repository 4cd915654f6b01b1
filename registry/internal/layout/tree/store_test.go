package tree

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func put(t *testing.T, s storage.Store, key string) {
	t.Helper()
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
}

// A listing is sorted by names, not by keys, and is the same as long as nothing changes.
func TestBelow(t *testing.T) {
	m := memory.New()
	v := NewStore(m, false)
	put(t, m, "/a/b/x")
	put(t, m, "/a/b-c/x")
	put(t, m, "/a/object")
	first, err := v.Below(t.Context(), "/a")
	if err != nil || !slices.Equal(first.Names, []string{"b", "b-c"}) || !first.Has("b-c") || first.Has("object") {
		t.Fatalf("listed %q, %v", first.Names, err)
	}
	if again, err := v.Below(t.Context(), "/a"); err != nil || again != first {
		t.Errorf("listed anew: %q, %v", again.Names, err)
	}
	put(t, m, "/a/d/x")
	if changed, err := v.Below(t.Context(), "/a"); err != nil || !slices.Equal(changed.Names, []string{"b", "b-c", "d"}) {
		t.Errorf("listed %q, %v", changed.Names, err)
	}
	if none, err := v.Below(t.Context(), "/none"); err != nil || len(none.Names) > 0 {
		t.Errorf("listed %q, %v", none.Names, err)
	}
}

// Each returns the first error in the order of its numbers, and begins no more after it.
func TestEach(t *testing.T) {
	for remote, want := range map[bool]int64{false: 4, true: 4 + storage.AtOnce} {
		t.Run(fmt.Sprint("remote ", remote), func(t *testing.T) {
			var calls atomic.Int64
			err := NewStore(memory.New(), remote).Each(40, func(i int) error {
				if calls.Add(1); i >= 3 {
					return fmt.Errorf("%w %d", errFailed, i)
				}
				return nil
			})
			if err == nil || err.Error() != "failed 3" || calls.Load() < 4 || calls.Load() > want {
				t.Errorf("%d calls, %v; want up to %d, failed 3", calls.Load(), err, want)
			}
		})
	}
}

var errFailed = errors.New("failed")
