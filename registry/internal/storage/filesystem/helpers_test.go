package filesystem

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"slipway/registry/internal/storage"
)

// apply makes the changes in one stage.
func apply(t *testing.T, s *Store, changes ...storage.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), nil, changes); err != nil {
		t.Fatal(err)
	}
}

func readAll(ctx context.Context, s *Store, key string) ([]byte, error) {
	o, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}

func size(u storage.Upload) int64 {
	n, _ := u.Progress()
	return n
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantStaging checks how many files are left in staging directories.
func wantStaging(t *testing.T, s *Store, want int) {
	t.Helper()
	left, err := filepath.Glob(s.staging + "/*/*")
	if err != nil || len(left) != want {
		t.Errorf("the staging directories have %v, %v; want %d files", left, err, want)
	}
}
