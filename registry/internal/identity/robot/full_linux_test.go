package robot

import (
	"errors"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/shared/programtest"
)

// A robot can be revoked where nothing can be written.
func TestRevoke_FullDisk(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=256k")
	store, err := filesystem.Open(dir, layout.Auth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	a := open(t, store)
	for _, name := range []string{"ci", "other"} {
		if _, err := a.Create(t.Context(), example(name)); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			err = store.Apply(t.Context(), nil, storage.Stage{{Key: "/filler/" + newID(), Content: make([]byte, size)}})
		}
		if !errors.Is(err, storage.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	if _, err := a.Create(t.Context(), example("more")); !errors.Is(err, storage.ErrNoSpace) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := a.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if list, err := open(t, store).List(t.Context()); err != nil || len(list) != 1 || list[0].Name != "other" {
		t.Errorf("after it: %v, %v", list, err)
	}
}
