// Package local_test tries what `make run` is made of, short of running it: the
// quick start of the documentation does that.
package local_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// A port that is taken is named, and so is who has it.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ports := filepath.Join(programtest.Root(t), "tools", "ports")
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, free, _ := net.SplitHostPort(programtest.FreeAddr(t))

	out, err := exec.Command(ports, free, port).CombinedOutput()
	want := fmt.Sprintf("port %s is in use by %s, process %d: end what listens there", port, filepath.Base(os.Args[0]), os.Getpid())
	if err == nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	l.Close()
	if out, err := exec.Command(ports, free, port).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("free ports: %v, %q", err, out)
	}
}
