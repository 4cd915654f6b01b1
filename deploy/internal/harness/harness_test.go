package harness_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// A server that was started answers, and ends when it is told to.
func TestStart(t *testing.T) {
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(harness.Binary(t, "registry"), "serve")
	cmd.Env = append(os.Environ(), "REGISTRY_HTTP_ADDR="+addr, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY="+t.TempDir())
	p := programtest.Start(t, cmd, "http://"+addr+"/v2/")
	resp, err := http.Get("http://" + addr + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /v2/: %s", resp.Status)
	}
	if err := p.Stop(t, 10*time.Second); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.Output(), "registry started") {
		t.Errorf("its output: %s", p.Output())
	}
}
