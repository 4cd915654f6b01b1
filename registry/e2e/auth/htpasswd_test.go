package auth

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway/registry/e2e/harness"
)

// TestPasswordFileMountedAlone: containers get the password file mounted by
// itself, often beside nothing that can be written. It cannot be replaced then,
// and is written to.
func TestPasswordFileMountedAlone(t *testing.T) {
	for name, flags := range map[string]uintptr{"in a directory": 0, "in a directory that can only be read": syscall.MS_RDONLY} {
		t.Run(name, func(t *testing.T) {
			dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "htpasswd")
			inside := filepath.Join(dir, "htpasswd")
			harness.WriteUser(t, outside, "a-user-whose-line-is-longer-than-the-other", "x")
			attach(t, "slipway-test", dir, "tmpfs", 0)
			harness.WriteFile(t, inside, nil)
			attach(t, outside, inside, "", syscall.MS_BIND)
			if flags != 0 {
				attach(t, "", dir, "", syscall.MS_REMOUNT|flags)
			}
			edit := func(stdin string, args ...string) {
				cmd := exec.Command(harness.Binary, append([]string{"htpasswd"}, args...)...)
				cmd.Stdin = strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
			edit("hunter2", inside, "b")
			edit("", "--delete", inside, "a-user-whose-line-is-longer-than-the-other")
			content, err := os.ReadFile(outside)
			if err != nil || !strings.HasPrefix(string(content), "b:$2y$") || strings.Count(string(content), "\n") != 1 {
				t.Errorf("the file holds %q, %v", content, err)
			}
			left, err := os.ReadDir(dir)
			left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == ".htpasswd.lock" })
			if err != nil || len(left) != 1 {
				t.Errorf("beside the file: %v, %v", left, err)
			}
		})
	}
}

// attach mounts until the end of the test.
func attach(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatal(err)
	}
	if flags&syscall.MS_REMOUNT == 0 {
		t.Cleanup(func() { _ = syscall.Unmount(target, 0) })
	}
}
