package programtest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Fill writes a file at path until nothing more fits on its file system.
func Fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// FillFiles makes files of a page in dir until its file system has no more bytes or inodes for one. Called again, it
// takes what has become free since.
func FillFiles(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 {
		name := filepath.Join(dir, strconv.Itoa(i))
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			continue
		}
		if err := os.WriteFile(name, make([]byte, os.Getpagesize()), 0o600); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the file system does not become full")
}
