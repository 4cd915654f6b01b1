package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// Clients that generators of Go and Python make of the API's description make a robot, delete a tag and restore it.
func TestGeneratedClients(t *testing.T) {
	root := t.TempDir()
	storage := "{filesystem: {rootdirectory: " + filepath.Join(root, "registry") + "}, delete: {enabled: true, keep: 1h}}"
	team := harness.StartTeamOn(t, storage, root, "access:\n  rules:\n    - {who: [alice], repositories: ['**'], allow: [admin]}\n")
	harness.NewImage(t, 1, 1, 100).Push(t, harness.AsAlice(team.Addr), "team/app", "v1")
	dir := filepath.Join(t.TempDir(), "generated")
	if err := os.CopyFS(dir, os.DirFS("generated")); err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	description := filepath.Join(programtest.Root(t), "registry", "openapi", "openapi.yml")
	login := []string{"http://" + team.Addr, "alice", "secret of alice"}

	run(programtest.Tool(t, "oapi-codegen"), "-generate", "types,client", "-package", "main", "-o", "client.go", description)
	run("go", "build", "-o", "program", ".")
	run(filepath.Join(dir, "program"), login...)

	run(programtest.Tool(t, "openapi-python-client"), "generate", "--path", description, "--output-path", "registry_client", "--meta", "none")
	run(filepath.Join(programtest.Root(t), ".tools", "openapi-python-client", "bin", "python"), append([]string{"main.py"}, login...)...)
}
