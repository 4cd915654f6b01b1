package durabledir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func TestMake(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	for range 2 { // the second time it is there
		if err := Make(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{dir: true, filepath.Dir(dir): false} {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || (info.Mode().Perm() == 0o700) != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := Make(path, 0o700); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestMake_AtTheSameTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := Make(dir, 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestSync(t *testing.T) {
	dir := t.TempDir()
	if err := Sync(dir); err != nil {
		t.Error(err)
	}
	if err := Sync(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
