package sharedstate

import (
	"errors"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage/memory"
)

// What nobody could read any more is not written.
func TestUpdate_TooLarge(t *testing.T) {
	d := New[[]string](memory.New(), layout.Robots)
	add := func(text string) error {
		return d.Update(t.Context(), func(all *[]string) error {
			*all = append(*all, text)
			return nil
		})
	}
	if err := add("small"); err != nil {
		t.Fatal(err)
	}
	if err := add(strings.Repeat("x", maxSize)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), layout.Robots) {
		t.Errorf("got %v", err)
	}
	if err := d.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	if all, _ := d.Last(); len(*all) != 1 {
		t.Errorf("%d entries", len(*all))
	}
}
