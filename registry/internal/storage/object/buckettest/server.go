package buckettest

import (
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Server is an emulator that all tests of a package share: it takes seconds to start.
type Server struct{ cmd *exec.Cmd }

// Main runs the tests, ends the server, and exits.
func (s *Server) Main(m *testing.M) {
	code := m.Run()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
	os.Exit(code)
}

// Start starts the server and waits until it answers at url.
func (s *Server) Start(t *testing.T, cmd *exec.Cmd, url string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url) //nolint:noctx // it answers or is not there
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v", cmd.Path, err)
		}
	}
}
