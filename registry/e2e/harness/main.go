package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Binary is the path of the registry under test.
var Binary string

// Main runs the tests of a package with the registry that SLIPWAY_E2E_REGISTRY names, or else
// builds one for them, and exits.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if Binary = os.Getenv("SLIPWAY_E2E_REGISTRY"); Binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "registry-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	Binary = filepath.Join(dir, "registry")
	build := exec.Command("go", "build", "-o", Binary, "slipway/registry/cmd/registry")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the registry: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
