//go:build goolm

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/shared/programtest"
)

// Clients that generators of Go and Python make of the API's description send, list and withdraw messages.
func TestGeneratedClients(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("generated", "")
	description := filepath.Join(programtest.Root(t), "relay", "openapi", "openapi.yml")
	dir := filepath.Join(s.dir, "generated")
	s.must(os.CopyFS(dir, os.DirFS("generated")))

	s.run(dir, programtest.Tool(t, "oapi-codegen"), "-generate", "types,client", "-package", "main", "-o", "client.go", description)
	s.run(dir, "go", "build", "-o", "generated", ".")
	s.run(dir, filepath.Join(dir, "generated"), s.url, a.token)

	s.run(dir, programtest.Tool(t, "openapi-python-client"), "generate", "--path", description, "--output-path", "relay_client", "--meta", "none")
	s.run(dir, filepath.Join(programtest.Root(t), ".tools", "openapi-python-client", "bin", "python"), "main.py", s.url, a.token)

	for _, text := range []string{"sent by Go", "sent by Python"} {
		s.eventually(text+" was withdrawn", func() bool { return s.count(a.room, text) == 0 })
	}
}

// run runs a program in a directory, and fails the test if it fails.
func (s *site) run(dir, program string, args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", program, err, out)
	}
}
