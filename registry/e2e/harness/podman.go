package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// Podman is podman or buildah, which fails the test if it fails.
func Podman(t *testing.T, name string) func(args ...string) string {
	t.Helper()
	try := PodmanCommand(t, name, nil)
	return func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, programtest.Tail(out))
		}
		return out
	}
}

// PodmanCommand has its storage in a directory of the test; vfs needs nothing of the kernel.
func PodmanCommand(t *testing.T, name string, env []string) func(args ...string) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "podman") // the path of its runroot has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return func(args ...string) (string, error) {
		common := []string{"--storage-driver=vfs", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run")}
		return TryTool(t, env, name, append(common, args...)...)
	}
}

// LastLine returns the last line that a command wrote. With -q it is the image's id, after
// warnings.
func LastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
