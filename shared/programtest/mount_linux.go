package programtest

import (
	"os"
	"syscall"
	"testing"
)

// Mount mounts a new file system of that kind on a directory, such as a "tmpfs" with
// "size=1m,nr_inodes=10", until the test ends. Only root can.
func Mount(t testing.TB, kind, options string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "only root can mount")
	}
	dir = t.TempDir()
	if err := syscall.Mount("slipway-test", dir, kind, 0, options); err != nil {
		t.Fatalf("mount a %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
