package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// engine is a docker daemon of the test's own.
type engine struct {
	t      testing.TB
	socket string
	config string
}

// startEngine runs dockerd in a directory of the test, with a configuration if one is
// given.
func startEngine(t testing.TB, configuration ...string) *engine {
	t.Helper()
	return startEngineIn(t, "", configuration...)
}

// startEngineIn runs dockerd with the directory in place of /etc/docker, where certs.d has
// the certificates that it trusts; "" leaves that alone.
func startEngineIn(t testing.TB, etc string, configuration ...string) *engine {
	t.Helper()
	// The socket's path has a short limit, t.TempDir is too long for it.
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &engine{t: t, socket: "unix://" + filepath.Join(dir, "d.sock"), config: filepath.Join(dir, "cli")}
	if err := os.MkdirAll(e.config, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Tool(t, "dockerd"), "--host", e.socket, "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "warn")
	for _, text := range configuration {
		file := filepath.Join(dir, "daemon.json")
		writeFile(t, file, []byte(text))
		cmd.Args = append(cmd.Args, "--config-file", file)
	}
	if etc != "" {
		if err := os.MkdirAll("/etc/docker", 0o755); err != nil {
			t.Fatal(err)
		}
		mount := []string{programtest.Tool(t, "unshare"), "--mount", "sh", "-c", `mount --bind "$0" /etc/docker && exec "$@"`, etc}
		cmd = exec.Command(mount[0], append(mount[1:], cmd.Args...)...)
	}
	out := new(programtest.Output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	})
	for range 300 {
		if _, err := e.try("info"); err == nil {
			return e
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("dockerd does not answer:\n%s", programtest.Tail(out.String()))
	return nil
}

func (e *engine) try(args ...string) (string, error) {
	return tryTool(e.t, []string{"DOCKER_CONFIG=" + e.config}, "docker", append([]string{"--host", e.socket}, args...)...)
}

func (e *engine) run(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// busybox imports a real root file system, so that an image can be run and
// built upon without any other registry.
func (e *engine) busybox() {
	e.t.Helper()
	dir := e.t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		e.t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		e.t.Fatalf("%v; `make tools` installs busybox-static", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "busybox"), program, 0o755); err != nil {
		e.t.Fatal(err)
	}
	archive := filepath.Join(e.t.TempDir(), "busybox.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", archive, ".").CombinedOutput(); err != nil {
		e.t.Fatalf("tar: %v\n%s", err, out)
	}
	e.run("import", "-c", `CMD ["/bin/busybox","echo","hello"]`, archive, "busybox:local")
}

// build makes an image of several layers on top of busybox.
func (e *engine) build(tag string) {
	e.t.Helper()
	dir := e.t.TempDir()
	writeFile(e.t, filepath.Join(dir, "a"), []byte(strings.Repeat("a", 100_000)))
	writeFile(e.t, filepath.Join(dir, "b"), []byte(tag))
	writeFile(e.t, filepath.Join(dir, "Dockerfile"), []byte("FROM busybox:local\nCOPY a /a\nCOPY b /b\nLABEL made=here\n"))
	e.run("build", "-q", "-t", tag, dir)
}

func TestDockerEngine(t *testing.T) {
	e := startEngine(t)
	e.busybox()
	root := t.TempDir()
	p := startSlipway(t, root)

	t.Run("push and pull", func(t *testing.T) {
		ref := p.addr + "/team/hello:1"
		e.build(ref)
		id := strings.TrimSpace(e.run("image", "inspect", "-f", "{{.Id}}", ref))
		e.run("push", ref)
		e.run("rmi", ref)
		e.run("pull", ref)
		if back := strings.TrimSpace(e.run("image", "inspect", "-f", "{{.Id}}", ref)); back != id {
			t.Errorf("pulled image %s, pushed %s", back, id)
		}
		if out := e.run("run", "--rm", "--network", "none", ref); strings.TrimSpace(out) != "hello" {
			t.Errorf("the pulled image says %q", out)
		}
		// The second push has nothing to send, into another repository it mounts.
		if out := e.run("push", ref); !strings.Contains(out, "Layer already exists") {
			t.Errorf("second push: %s", out)
		}
		other := p.addr + "/team/other:1"
		e.run("tag", ref, other)
		if out := e.run("push", other); !strings.Contains(out, "Mounted from") {
			t.Errorf("push into another repository: %s", out)
		}
	})

	t.Run("login", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "htpasswd")
		cmd := exec.Command(binary, "htpasswd", "--password-stdin", file, "ada")
		cmd.Stdin = strings.NewReader("secret")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("registry htpasswd: %v\n%s", err, out)
		}
		q := startSlipway(t, t.TempDir(), "REGISTRY_AUTH_HTPASSWD_REALM=basic-realm", "REGISTRY_AUTH_HTPASSWD_PATH="+file)
		ref := q.addr + "/private:1"
		e.build(ref)
		if out, err := e.try("push", ref); err == nil || !strings.Contains(out, "no basic auth credentials") && !strings.Contains(out, "unauthorized: authentication required") {
			t.Errorf("push without a login: %v\n%s", err, out)
		}
		if out, err := e.try("login", "-u", "ada", "-p", "wrong", q.addr); err == nil || !strings.Contains(out, "401 Unauthorized") {
			t.Errorf("login with a wrong password: %v\n%s", err, out)
		}
		// A password that was changed since the login.
		wrong := base64.StdEncoding.EncodeToString([]byte("ada:outdated"))
		writeFile(t, filepath.Join(e.config, "config.json"), mustJSON(t, map[string]any{
			"auths": map[string]any{q.addr: map[string]string{"auth": wrong}},
		}))
		if out, err := e.try("push", ref); err == nil || !strings.Contains(out, "unauthorized: authentication required") {
			t.Errorf("push with a wrong password: %v\n%s", err, out)
		}
		e.run("login", "-u", "ada", "-p", "secret", q.addr)
		e.run("push", ref)
		e.run("rmi", ref)
		e.run("pull", ref)
	})

	// The engine asks for tokens of the class plugin, and takes none for an image's.
	t.Run("plugin", func(t *testing.T) {
		x := startTeam(t, t.TempDir(), teamRules, "policy: {repository: {classes: [image, plugin]}}")
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "rootfs"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "config.json"), []byte(`{"description": "none", "documentation": "none", "entrypoint": ["/none"], "interface": {"types": ["docker.volumedriver/1.0"], "socket": "none.sock"}}`))
		ref, image := x.addr+"/carl/plugin:1", x.addr+"/carl/image:1"
		e.run("login", "-u", "carl", "-p", "secret of carl", x.addr)
		e.run("plugin", "create", ref, dir)
		e.run("plugin", "push", ref)
		e.run("tag", "busybox:local", image)
		e.run("push", image)
		token, _ := x.token(t, "", "", "repository:carl/plugin:pull")
		if resp, body := fetch(t, "GET", "http://"+x.addr+"/v2/carl/plugin/manifests/1", bearer(token), nil); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "application/vnd.docker.plugin.v1+json") {
			t.Errorf("the plugin's manifest: %s %s", resp.Status, body)
		}
	})

	t.Run("delete by digest", func(t *testing.T) {
		ref := p.addr + "/team/gone:1"
		e.build(ref)
		e.run("push", ref)
		base := "http://" + p.addr + "/v2/team/gone/manifests/"
		resp, _ := fetch(t, "HEAD", base+"1", http.Header{"Accept": {typeDockerManifest}}, nil)
		digest := resp.Header.Get("Docker-Content-Digest")
		if resp.StatusCode != 200 || digest == "" {
			t.Fatalf("HEAD: %s, digest %q", resp.Status, digest)
		}
		if resp, body := fetch(t, "DELETE", base+digest, nil, nil); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("DELETE: %s %s", resp.Status, body)
		}
		if out, err := e.try("pull", ref); err == nil || !strings.Contains(out, "manifest unknown") {
			t.Errorf("pull of a deleted image: %v\n%s", err, out)
		}
	})

	t.Run("same volume under distribution", func(t *testing.T) {
		ref := p.addr + "/exchange:ours"
		e.build(ref)
		e.run("push", ref)
		for _, peer := range peers {
			d := startPeer(t, peer.tool, root)
			e.run("pull", d.addr+"/exchange:ours")
			theirs := fmt.Sprintf("/exchange:%s", strings.ReplaceAll(peer.tool, "docker-registry", "distribution2"))
			e.build(d.addr + theirs)
			e.run("push", d.addr+theirs)
			e.run("pull", p.addr+theirs)
		}
	})
}
