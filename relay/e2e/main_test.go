// Package e2e runs the built relay against a real homeserver, through a proxy
// that fails on a script, and reads what arrived as another Matrix user.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/relay/internal/synapsetest"
)

var (
	relayBinary string
	homeserver  *synapsetest.Server
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "relay-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	relayBinary = filepath.Join(dir, "relay")
	if out, err := exec.Command("go", "build", "-tags", "goolm", "-o", relayBinary, "../cmd/relay").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the relay: %v\n%s", err, out)
		return 1
	}
	homeserver, err = synapsetest.Start(context.Background(), synapsetest.Options{Dir: filepath.Join(dir, "synapse")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer homeserver.Stop()
	return m.Run()
}
