package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// Process is a registry that a test started.
type Process struct {
	*programtest.Process
	Addr string // host:port
}

// Start runs a server and waits until GET /v2/ on addr is answered.
func Start(t testing.TB, addr string, cmd *exec.Cmd) *Process {
	t.Helper()
	return &Process{programtest.Start(t, cmd, "http://"+addr+"/v2/"), addr}
}

// Stop ends the process by SIGTERM and returns its exit error.
func (p *Process) Stop(t testing.TB) error {
	t.Helper()
	return p.Process.Stop(t, time.Minute)
}

// Serve starts `registry serve` with the arguments and waits until it answers at addr. Of the environment it has
// PATH and what env names.
func Serve(t testing.TB, addr string, env []string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(Binary, append([]string{"serve"}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)
	return Start(t, addr, cmd)
}

// Run runs a command of the registry under test for five minutes at most. Of the environment it has PATH and what
// env names.
func Run(t testing.TB, env []string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// StartRegistry serves root with the registry under test. The environment comes
// on top of a configuration that allows deletion.
func StartRegistry(t testing.TB, root string, env ...string) *Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return Start(t, addr, RegistryCommand(addr, root, env...))
}

// RegistryCommand returns the command that serves root at addr with the registry under test. The
// environment comes on top of a configuration that allows deletion.
func RegistryCommand(addr, root string, env ...string) *exec.Cmd {
	cmd := exec.Command(Binary, "serve")
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_SECRET=shared-by-all-replicas",
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + root,
		"REGISTRY_STORAGE_DELETE_ENABLED=true",
		"REGISTRY_LOG_LEVEL=warn",
		"REGISTRY_LOG_ACCESSLOG_DISABLED=true",
	}, env...)
	return cmd
}

// RunTool runs a client to its end and fails the test if it fails.
func RunTool(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := TryTool(t, nil, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, programtest.Tail(out))
	}
	return out
}

// TryTool runs a client for two minutes at most and returns its output. The environment comes on
// top of that of the test.
func TryTool(t testing.TB, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, programtest.Tool(t, name), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// errorOutput returns the text that a failed command wrote to its standard error.
func errorOutput(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return programtest.Tail(string(exit.Stderr))
	}
	return ""
}

// Eventually waits until done returns true. The minute that it waits is for machines that are
// busy.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Peak is the most memory that the process ever held (VmHWM), in bytes.
func (p *Process) Peak(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in /proc")
	return 0
}

// ResetPeak makes Peak forget what was before.
func (p *Process) ResetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.ID()), []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
}
