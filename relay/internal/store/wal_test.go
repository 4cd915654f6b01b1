package store

import (
	"os"
	"path/filepath"
	"testing"
)

// After a flush that failed nobody knows what of the log is on disk: what is accepted next is flushed without it.
func testFlushFails_WhatIsAcceptedNext_NeedsNoLog(t *testing.T) {
	path, image := filepath.Join(t.TempDir(), "relay.db"), filepath.Join(t.TempDir(), "relay.db")
	s := open(t, path)
	withRoom(t, s)
	if err := s.w.wal.close(); err != nil { // so that a flush fails
		t.Fatal(err)
	}
	if err := s.Accept(ctx, entry(1, "first")); err == nil {
		t.Fatal("accepted without a flush")
	}
	var err error
	if s.w.wal, err = openWAL(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Accept(ctx, entry(1, "second")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, data, 0o600); err != nil {
		t.Fatal(err)
	}
	found, _, err := open(t, image).Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(found) != 2 || found[1].Body != "second" {
		t.Errorf("without the log: %+v, %v", found, err)
	}
}
