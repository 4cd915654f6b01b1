// Package e2e runs the built relay against a real homeserver, through a proxy
// that fails on a script, and reads what arrived as another Matrix user.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"slipway/relay/internal/servertest"
	"slipway/shared/testserver"
)

var (
	relayBinary string
	homeserver  *servertest.Homeserver
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the tests with the relay that SLIPWAY_E2E_RELAY names, or else builds one.
func run(m *testing.M) int {
	testserver.UseMemory()
	flag.Parse()
	if cores := strconv.Itoa(runtime.GOMAXPROCS(0)); flag.Lookup("test.parallel").Value.String() == cores { // these tests mostly wait
		_ = flag.Set("test.parallel", "6")
	}
	var err error
	if homeserver, err = servertest.SharedSynapse(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if relayBinary = os.Getenv("SLIPWAY_E2E_RELAY"); relayBinary != "" {
		return m.Run()
	}
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
	return m.Run()
}
