package object

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/storage"
)

// A full bucket still confirms what exists; the attempt remembers that it can't write.
func TestRely_NoSpace_OnlyDeniesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.store(t)
		put(t, s, "/r/link")
		time.Sleep(time.Hour)
		m.failWith(func(method, _ string) error {
			if method == "COPY" || method == "PUT" {
				return storage.ErrNoSpace
			}
			return nil
		})
		a := s.Begin()
		if _, err := storage.Rely(t.Context(), s, a, "/r/link"); err != nil {
			t.Errorf("Rely: %v", err)
		}
		if err := a.Denied(); !errors.Is(err, storage.ErrNoSpace) {
			t.Errorf("Denied: %v, want %v", err, storage.ErrNoSpace)
		}
	})
}
