package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// StartContainerd runs containerd in a directory of the test and returns its client.
func StartContainerd(t *testing.T) func(args ...string) string {
	t.Helper()
	socket := ContainerdSocket(t)
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command(programtest.Tool(t, "ctr"), append([]string{"--address", socket}, args...)...).Output()
		if err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, errorOutput(err))
		}
		return string(out)
	}
}

// ContainerdSocket runs containerd in a directory of the test and returns its socket.
func ContainerdSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "containerd") // a socket's path has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "config.toml")
	WriteFile(t, config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"))
	socket := filepath.Join(dir, "c.sock")
	cmd := exec.Command(programtest.Tool(t, "containerd"), "--config", config, "--root", filepath.Join(dir, "root"), "--state", filepath.Join(dir, "state"), "--address", socket, "--log-level", "warn")
	programtest.Launch(t, cmd)
	Eventually(t, "containerd answers", func() bool {
		_, err := TryTool(t, nil, "ctr", "--address", socket, "version")
		return err == nil
	})
	return socket
}
