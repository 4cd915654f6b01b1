// Package config_test holds the production configurations against the built
// services.
package config_test

import (
	"io"
	"net/http"
	"os"
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
		out, err := harness.CheckConfig(t, harness.Binary(t, service), service+".yml")
		if err != nil || string(out) != "the configuration is valid\n" {
			t.Errorf("%s: %v\n%s", service, err, out)
		}
	}
}

// The registry serves with its file: it asks for a login, sends clients to the
// configured address and shows its metrics.
func TestRegistryServes(t *testing.T) {
	dir, addr, debug := t.TempDir(), programtest.FreeAddr(t), programtest.FreeAddr(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users, secret := filepath.Join(dir, "htpasswd"), filepath.Join(dir, "http-secret")
	write(t, users, "alice:"+string(hash)+"\n")
	write(t, secret, "0123456789abcdef\n")
	cmd := exec.Command(harness.Binary(t, "registry"), "serve", "registry.yml")
	cmd.Env = []string{
		"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_HTTP_DEBUG_ADDR=" + debug, "REGISTRY_HTTP_SECRET_FILE=" + secret,
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + filepath.Join(dir, "images"), "REGISTRY_AUTH_HTPASSWD_PATH=" + users,
	}
	p := programtest.Start(t, cmd, "http://"+addr+"/")

	if resp, _ := get(t, http.MethodGet, "http://"+addr+"/v2/", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET /v2/ without a login: %s", resp.Status)
	}
	resp, _ := get(t, http.MethodPost, "http://"+addr+"/v2/app/blobs/uploads/", "secret")
	if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://registry.example.org/v2/app/blobs/uploads/") {
		t.Errorf("POST of an upload: %s, Location %q", resp.Status, at)
	}
	if _, body := get(t, http.MethodGet, "http://"+debug+"/metrics", ""); !strings.Contains(body, "registry_http_requests_total{") {
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
	secret := filepath.Join(dir, "password")
	write(t, secret, "correct horse battery\n")
	cmd := exec.Command(harness.Binary(t, "relay"), "serve", "--config", "relay.yml")
	cmd.Env = []string{
		"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_METRICS_LISTENADDRESS=" + metrics, "MATRIX_PASSWORD_FILE=" + secret, "ADMIN_PASSWORD_FILE=" + secret,
		"RELAY_DATABASE_CONNECTION=" + filepath.Join(dir, "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
	}
	p := programtest.Start(t, cmd, "http://"+addr+"/livez")

	if resp, body := get(t, http.MethodGet, "http://"+addr+"/readyz", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("GET /readyz: %s %s", resp.Status, body)
	}
	if resp, _ := get(t, http.MethodGet, "http://"+addr+"/metrics", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /metrics on the public address: %s", resp.Status)
	}
	if _, body := get(t, http.MethodGet, "http://"+metrics+"/metrics", ""); !strings.Contains(body, "relay_queue_oldest_seconds ") {
		t.Errorf("metrics: %.300s", body)
	}
	if err := p.Stop(t, 10*time.Second); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, method, url, password string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		req.SetBasicAuth("alice", password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
