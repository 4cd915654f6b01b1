package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/internal/config"
	"slipway/shared/programtest"
)

// Distribution serves a tree whose docker directory alone is on a volume. Here every push would fail, so the
// registry says so before it starts.
func TestCheckFiles_TreeOnAnotherFileSystem(t *testing.T) {
	root, volume := t.TempDir(), programtest.Mount(t, "tmpfs", "size=1m")
	if err := os.Mkdir(filepath.Join(volume, "docker"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(volume, "docker"), filepath.Join(root, "docker")); err != nil {
		t.Fatal(err)
	}
	check := func(root string, readOnly bool) error {
		var cfg config.Config
		cfg.Storage.Filesystem = &config.Filesystem{RootDirectory: root}
		cfg.Storage.Maintenance.ReadOnly.Enabled = readOnly
		return CheckFiles(&cfg)
	}
	want := "storage.filesystem.rootdirectory: " + root + "/docker is on another file system than " + root + ": mount the volume at " + root
	if err := check(root, false); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := check(root, true); err != nil {
		t.Errorf("read-only, which moves no files: %v", err)
	}
	if err := check(volume, false); err != nil {
		t.Errorf("what the sentence said: %v", err)
	}
}
