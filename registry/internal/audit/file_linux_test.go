package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"slipway/shared/programtest"
)

// A line that was cut off gets its end before the next one, also where the disk was too full
// for that when the file was opened.
func TestFile_EndsACutLineOnceThereIsRoom(t *testing.T) {
	dir, page := programtest.Mount(t, "tmpfs", "size=1m"), os.Getpagesize()
	path, filler := filepath.Join(dir, "audit.log"), filepath.Join(dir, "filler")
	cut := bytes.Repeat([]byte("x"), page) // its end needs another page
	if err := os.WriteFile(path, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	f, err := OpenFile(path)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	defer f.Close()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("next\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(cut)+"\nnext\n" {
		t.Errorf("%d bytes, the last ones %q, %v", len(got), got[page-1:], err)
	}
}
