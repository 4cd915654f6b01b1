package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// The relay takes what the registry has signed with the secret that both have, and
// nothing of a registry with another one.
func TestSignedEvents(t *testing.T) {
	for _, tt := range []struct {
		name, registrySecret, want string
	}{
		{"the same secret", "a-secret-that-both-share", `"title":"hello:1 pushed"`},
		{"another secret", "a-secret-of-another", "answered 401"},
		{"no secret", "", "answered 401"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newSignedRelay(t, "a-secret-that-both-share")
			registry := r.startRegistry(t, tt.registrySecret)
			layer := filepath.Join(t.TempDir(), "empty.tar")
			if err := os.WriteFile(layer, make([]byte, 1024), 0o600); err != nil {
				t.Fatal(err)
			}
			harness.Run(t, "crane", "append", "-f", layer, "-t", registry.addr+"/hello:1")
			got := ""
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !strings.Contains(got, tt.want); time.Sleep(50 * time.Millisecond) {
				got = r.messages(t) + registry.Output()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("neither the relay's messages nor the registry's log have %q:\n%s", tt.want, tail(got))
			}
			if signed := tt.registrySecret == "a-secret-that-both-share"; strings.Contains(r.messages(t), "hello:1") != signed {
				t.Errorf("messages: %s", r.messages(t))
			}
		})
	}
}

// signedRelay is a relay with a secret for registries, and an application. It has
// no homeserver: what it takes waits.
type signedRelay struct{ url, token string }

func newSignedRelay(t *testing.T, secret string) signedRelay {
	t.Helper()
	dir, addr := t.TempDir(), programtest.FreeAddr(t)
	env := append(os.Environ(),
		"RELAY_HTTP_LISTENADDRESS="+addr, "RELAY_DATABASE_CONNECTION="+filepath.Join(dir, "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
		"RELAY_MATRIX_USERNAME=@relay:localhost", "MATRIX_PASSWORD=unused", "ADMIN_PASSWORD=correct horse", "RELAY_ADMIN_MATRIXID=@you:localhost",
		"RELAY_HOOK_REGISTRY_SECRET="+secret)
	create := exec.CommandContext(t.Context(), harness.Binary(t, "relay"), "app", "create", "registry", "--room", "!room:localhost", "--quiet")
	create.Env = env
	token, err := create.Output()
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(harness.Binary(t, "relay"), "serve")
	serve.Env = env
	programtest.Start(t, serve, "http://"+addr+"/livez")
	return signedRelay{url: "http://" + addr, token: strings.TrimSpace(string(token))}
}

// messages is what the relay has taken, as JSON.
func (r signedRelay) messages(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/message", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type eventRegistry struct {
	*programtest.Process
	addr string
}

// startRegistry runs a registry that notifies the relay and signs with the secret,
// if it has one.
func (r signedRelay) startRegistry(t *testing.T, secret string) eventRegistry {
	t.Helper()
	addr := programtest.FreeAddr(t)
	endpoint := "{name: relay, url: \"" + r.url + "/hook/registry\", headers: {Authorization: [Bearer " + r.token + "]}, secret: \"" + secret + "\"}"
	cmd := exec.Command(harness.Binary(t, "registry"), "serve")
	cmd.Env = append(os.Environ(), "REGISTRY_HTTP_ADDR="+addr, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY="+t.TempDir(), "REGISTRY_NOTIFICATIONS_ENDPOINTS=["+endpoint+"]")
	return eventRegistry{programtest.Start(t, cmd, "http://"+addr+"/v2/"), addr}
}
