package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

const peerConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: "%ROOT%"}
  delete: {enabled: true}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
`

// Peer is a line of CNCF distribution.
type Peer struct{ Name, Tool string } // Tool is the program

// The two lines of distribution. The newer one is only for tests of `make test-full`.
var (
	Distribution2 = Peer{"distribution 2.8", "docker-registry"}
	Distribution3 = Peer{"distribution 3.1", "distribution3"}
)

// StartPeer serves root with a distribution.
func StartPeer(t testing.TB, command, root string) *Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(programtest.Tool(t, command), "serve", WritePeerConfig(t, addr, root))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	return Start(t, addr, cmd)
}

// WritePeerConfig writes a configuration that both lines of distribution and this registry read.
func WritePeerConfig(t testing.TB, addr, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	text := strings.NewReplacer("%ROOT%", root, "%ADDR%", addr).Replace(peerConfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
