package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// A file system without inodes is a full disk, whichever file of a new database has none.
func TestOpen_NoInodes(t *testing.T) {
	for inodes := 1; ; inodes++ {
		path := filepath.Join(programtest.Mount(t, "tmpfs", fmt.Sprint("size=8m,nr_inodes=", inodes)), "relay.db")
		s, err := Open(t.Context(), path)
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if inodes < 4 {
				t.Errorf("opened with %d inodes", inodes)
			}
			return
		}
		if !IsFull(err) || !strings.Contains(err.Error(), "no inodes left") || inodes > 10 {
			t.Fatalf("with %d inodes: %v", inodes, err)
		}
	}
}
