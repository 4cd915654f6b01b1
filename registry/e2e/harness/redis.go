package harness

import (
	"net"
	"os/exec"
	"testing"

	"slipway/shared/programtest"
)

// StartRedis runs a Redis that keeps nothing on disk.
func StartRedis(t *testing.T, addr string) *programtest.Process {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	return programtest.Launch(t, exec.Command(programtest.Tool(t, "redis-server"),
		"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()))
}
