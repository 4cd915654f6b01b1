package takeover

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// The volume may lie in a directory that the registry may pass and not read, as
// systemd makes them.
func TestFlushBelowADirectoryOfOthers(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	root := filepath.Join(private, "volume")
	check(t, os.MkdirAll(root+"/a/b", 0o755))
	check(t, os.Chmod(filepath.Dir(filepath.Dir(private)), 0o755))
	check(t, os.Chmod(private, 0o311))
	t.Cleanup(func() { _ = os.Chmod(private, 0o755) })
	failed := make(chan error)
	go func() {
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // which ends with the goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				failed <- err
				return
			}
		}
		failed <- flush(root, []string{root + "/a/b"})
	}()
	check(t, <-failed)
}
