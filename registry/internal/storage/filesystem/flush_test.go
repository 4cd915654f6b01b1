package filesystem

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
)

// A flush that fails may have lost the entries of every commit in progress: the kernel reports it once.
func TestFlushFailure_OfAnotherCommit(t *testing.T) {
	s, err := Open(t.TempDir())
	check(t, err)
	t.Cleanup(func() { s.Close() })
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			s.dirs.failures.Add(1)
		}
	}()
	for i := range 100 {
		if err = s.Apply(t.Context(), nil, storage.Stage{{Key: fmt.Sprintf("/r/%d/link", i), Content: []byte("x")}}); err != nil {
			break
		}
	}
	stop.Store(true)
	<-ended
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("100 commits beside failing flushes end with %v", err)
	}
	check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/after/link", Content: []byte("x")}}))
}
