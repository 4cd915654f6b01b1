// Package config_test holds the production configurations against the built
// services.
package config_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// Both files are valid as they are and warn of nothing.
func TestCheck(t *testing.T) {
	for _, service := range []string{"registry", "relay"} {
		if out, err := harness.CheckConfig(t, harness.Binary(t, service), service+".yml"); err != nil || string(out) != "the configuration is valid\n" {
			t.Errorf("%s: %v\n%s", service, err, out)
		}
	}
}

// The registry serves with its file: it asks for a login, sends clients to the
// configured address and shows its metrics, without a warning.
func TestRegistryServes(t *testing.T) {
	dir, addr, debug := t.TempDir(), programtest.FreeAddr(t), programtest.FreeAddr(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.Binary(t, "registry"), "serve", "registry.yml")
	cmd.Env = []string{
		"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_HTTP_DEBUG_ADDR=" + debug, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + filepath.Join(dir, "images"),
		"REGISTRY_HTTP_SECRET_FILE=" + harness.Write(t, filepath.Join(dir, "http-secret"), "0123456789abcdef\n"),
		"REGISTRY_AUTH_HTPASSWD_PATH=" + harness.Write(t, filepath.Join(dir, "htpasswd"), "alice:"+string(hash)+"\n"),
	}
	p := programtest.Start(t, cmd, "http://"+addr+"/")

	if resp, _ := harness.Ask(t, nil, http.MethodGet, "http://"+addr+"/v2/", nil); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET /v2/ without a login: %s", resp.Status)
	}
	resp, _ := harness.Ask(t, nil, http.MethodPost, "http://alice:secret@"+addr+"/v2/app/blobs/uploads/", nil)
	if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://registry.example.org/v2/app/blobs/uploads/") {
		t.Errorf("POST of an upload: %s, Location %q", resp.Status, at)
	}
	if _, body := harness.Ask(t, nil, http.MethodGet, "http://"+debug+"/metrics", nil); !strings.Contains(body, "registry_http_requests_total{") {
		t.Errorf("metrics: %.300s", body)
	}
	if err := p.Stop(t, 10*time.Second); err != nil {
		t.Error(err)
	}
	if strings.Contains(p.Output(), `"level":"warn`) {
		t.Errorf("it warns:\n%s", p.Output())
	}
}

// The relay serves with its file, homeserver or not, and keeps its metrics off
// the address that the proxy publishes.
func TestRelayServes(t *testing.T) {
	dir, addr, metrics := t.TempDir(), programtest.FreeAddr(t), programtest.FreeAddr(t)
	secret := harness.Write(t, filepath.Join(dir, "password"), "correct horse battery\n")
	cmd := exec.Command(harness.Binary(t, "relay"), "serve", "--config", "relay.yml")
	cmd.Env = []string{
		"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_METRICS_LISTENADDRESS=" + metrics, "MATRIX_PASSWORD_FILE=" + secret, "ADMIN_PASSWORD_FILE=" + secret,
		"RELAY_DATABASE_CONNECTION=" + filepath.Join(dir, "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
	}
	p := programtest.Start(t, cmd, "http://"+addr+"/readyz")
	if resp, _ := harness.Ask(t, nil, http.MethodGet, "http://"+addr+"/metrics", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /metrics on the public address: %s", resp.Status)
	}
	if _, body := harness.Ask(t, nil, http.MethodGet, "http://"+metrics+"/metrics", nil); !strings.Contains(body, "relay_queue_oldest_seconds ") {
		t.Errorf("metrics: %.300s", body)
	}
	if err := p.Stop(t, 10*time.Second); err != nil {
		t.Error(err)
	}
}
