package harness

import (
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// RemountReadOnly waits for a moment in which no file is open for writing, as
// the health check has one ten times a second.
func RemountReadOnly(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// SmallVolumes mounts file systems that are soon full. It needs root.
var SmallVolumes = map[string]func(t *testing.T) string{
	"ext4 without inodes": func(t *testing.T) string { return MountExt4(t, "64M", "-N", "500", "-m", "0") },
	"ext4 without bytes":  func(t *testing.T) string { return MountExt4(t, "24M", "-m", "0") },
	"tmpfs without inodes": func(t *testing.T) string {
		return programtest.Mount(t, "tmpfs", "size=32m,nr_inodes=500")
	},
	"tmpfs without bytes": func(t *testing.T) string { return programtest.Mount(t, "tmpfs", "size=8m") },
}

// MountExt4 mounts a new ext4 in a file.
func MountExt4(t *testing.T, size string, mkfs ...string) string {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "volume"), t.TempDir()
	RunTool(t, "truncate", "-s", size, file)
	RunTool(t, "mkfs.ext4", append(mkfs, "-q", file)...)
	RunTool(t, "mount", "-o", "loop", file, dir)
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return dir
}
