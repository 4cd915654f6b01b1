package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A process that is killed leaves nothing in the spool: its files have no name. Their bytes
// count until they are closed.
func TestSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := newSpool(dir, 10)
	one, err := s.create()
	check(t, err)
	two, err := s.create()
	check(t, err)
	check(t, one.write([]byte("123456"), 0))
	if err := two.write([]byte("12345"), 0); !errors.Is(err, errSpoolFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v are left, %v", files, err)
	}
	check(t, one.Close())
	check(t, two.write([]byte("12345"), 0))
	check(t, two.reserve(10))
	check(t, two.Close())
	if !s.room.TryAcquire(10) {
		t.Error("room isn't given back")
	}
}
