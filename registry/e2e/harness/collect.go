package harness

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Debris lists what only an interrupted request can have left: files of
// uploads, temporary files. The lock that says that the process lives is none.
func Debris(t *testing.T, root string) []string {
	t.Helper()
	var left []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we walk
		}
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") && (strings.Contains(path, "/_uploads/") || strings.HasSuffix(path, ".tmp") || strings.Contains(path, "/.staging/")) {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// CollectCommand returns the command that collects garbage on root. The environment comes on top of
// that of RegistryCommand.
func CollectCommand(root string, args []string, env ...string) *exec.Cmd {
	cmd := RegistryCommand("127.0.0.1:0", root, env...)
	cmd.Args = append([]string{Binary, "garbage-collect"}, args...)
	return cmd
}

// CollectGarbage runs garbage-collect on root and returns its output; the test fails if the command does.
func CollectGarbage(t testing.TB, root string, args ...string) string {
	t.Helper()
	out, err := CollectCommand(root, args).Output()
	if err != nil {
		t.Fatalf("garbage-collect: %v: %s", err, errorOutput(err))
	}
	return string(out)
}

// OnDisk reports whether the storage has a blob's bytes, anywhere.
func OnDisk(t testing.TB, root, digest string) bool {
	t.Helper()
	hex := strings.TrimPrefix(digest, "sha256:")
	found := false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.Contains(path, hex) && !strings.HasSuffix(path, "/link") {
			found = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// WantFreed fails the test if the storage has one of the image's blobs.
func WantFreed(t testing.TB, root string, img *Image, except ...string) {
	t.Helper()
	for d := range img.Blobs {
		if !slices.Contains(except, d) && OnDisk(t, root, d) {
			t.Errorf("%s is still on disk", d)
		}
	}
}
