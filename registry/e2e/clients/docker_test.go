package clients

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

func TestDockerEngine(t *testing.T) {
	e := harness.StartEngine(t)
	e.Busybox()
	root := t.TempDir()
	p := harness.StartRegistry(t, root)

	t.Run("push and pull", func(t *testing.T) {
		ref := p.Addr + "/team/hello:1"
		e.Build(ref)
		id := strings.TrimSpace(e.Run("image", "inspect", "-f", "{{.Id}}", ref))
		e.Run("push", ref)
		e.Run("rmi", ref)
		e.Run("pull", ref)
		if back := strings.TrimSpace(e.Run("image", "inspect", "-f", "{{.Id}}", ref)); back != id {
			t.Errorf("pulled image %s, pushed %s", back, id)
		}
		if out := e.Run("run", "--rm", "--network", "none", ref); strings.TrimSpace(out) != "hello" {
			t.Errorf("the pulled image says %q", out)
		}
		// The second push has nothing to send, into another repository it mounts.
		if out := e.Run("push", ref); !strings.Contains(out, "Layer already exists") {
			t.Errorf("second push: %s", out)
		}
		other := p.Addr + "/team/other:1"
		e.Run("tag", ref, other)
		if out := e.Run("push", other); !strings.Contains(out, "Mounted from") {
			t.Errorf("push into another repository: %s", out)
		}
	})

	t.Run("login", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "htpasswd")
		harness.WriteUser(t, file, "ada", "secret")
		q := harness.StartRegistry(t, t.TempDir(), "REGISTRY_AUTH_HTPASSWD_REALM=basic-realm", "REGISTRY_AUTH_HTPASSWD_PATH="+file)
		ref := q.Addr + "/private:1"
		e.Build(ref)
		if out, err := e.Try("push", ref); err == nil || !strings.Contains(out, "no basic auth credentials") && !strings.Contains(out, "unauthorized: authentication required") {
			t.Errorf("push without a login: %v\n%s", err, out)
		}
		if out, err := e.Try("login", "-u", "ada", "-p", "wrong", q.Addr); err == nil || !strings.Contains(out, "401 Unauthorized") {
			t.Errorf("login with a wrong password: %v\n%s", err, out)
		}
		// A password that was changed since the login.
		wrong := base64.StdEncoding.EncodeToString([]byte("ada:outdated"))
		harness.WriteFile(t, filepath.Join(e.Config, "config.json"), harness.JSON(t, map[string]any{
			"auths": map[string]any{q.Addr: map[string]string{"auth": wrong}},
		}))
		if out, err := e.Try("push", ref); err == nil || !strings.Contains(out, "unauthorized: wrong name or password") {
			t.Errorf("push with a wrong password: %v\n%s", err, out)
		}
		e.Run("login", "-u", "ada", "-p", "secret", q.Addr)
		e.Run("push", ref)
		e.Run("rmi", ref)
		e.Run("pull", ref)
	})

	// The engine asks for tokens of the class plugin, and takes none for an image's.
	t.Run("plugin", func(t *testing.T) {
		x := harness.StartTeam(t, t.TempDir(), harness.TeamRules, "policy: {repository: {classes: [image, plugin]}}")
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "rootfs"), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(dir, "config.json"), []byte(`{"description": "none", "documentation": "none", "entrypoint": ["/none"], "interface": {"types": ["docker.volumedriver/1.0"], "socket": "none.sock"}}`))
		ref, image := x.Addr+"/carl/plugin:1", x.Addr+"/carl/image:1"
		e.Run("login", "-u", "carl", "-p", "secret of carl", x.Addr)
		e.Run("plugin", "create", ref, dir)
		e.Run("plugin", "push", ref)
		e.Run("tag", "busybox:local", image)
		e.Run("push", image)
		token, _ := x.Token(t, "", "", "repository:carl/plugin:pull")
		if resp, body := harness.Fetch(t, "GET", "http://"+x.Addr+"/v2/carl/plugin/manifests/1", harness.Bearer(token), nil); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "application/vnd.docker.plugin.v1+json") {
			t.Errorf("the plugin's manifest: %s %s", resp.Status, body)
		}
	})

	t.Run("delete by digest", func(t *testing.T) {
		ref := p.Addr + "/team/gone:1"
		e.Build(ref)
		e.Run("push", ref)
		base := "http://" + p.Addr + "/v2/team/gone/manifests/"
		resp, _ := harness.Fetch(t, "HEAD", base+"1", http.Header{"Accept": {harness.TypeDockerManifest}}, nil)
		digest := resp.Header.Get("Docker-Content-Digest")
		if resp.StatusCode != 200 || digest == "" {
			t.Fatalf("HEAD: %s, digest %q", resp.Status, digest)
		}
		if resp, body := harness.Fetch(t, "DELETE", base+digest, nil, nil); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("DELETE: %s %s", resp.Status, body)
		}
		if out, err := e.Try("pull", ref); err == nil || !strings.Contains(out, "manifest unknown") {
			t.Errorf("pull of a deleted image: %v\n%s", err, out)
		}
	})

	t.Run("same volume under distribution", func(t *testing.T) {
		ref := p.Addr + "/exchange:ours"
		e.Build(ref)
		e.Run("push", ref)
		d := harness.StartPeer(t, harness.Distribution2.Tool, root)
		e.Run("pull", d.Addr+"/exchange:ours")
		e.Build(d.Addr + "/exchange:theirs")
		e.Run("push", d.Addr+"/exchange:theirs")
		e.Run("pull", p.Addr+"/exchange:theirs")
	})
}
