package mirror

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// startPrivate starts registries that want a login: by password, and by tokens.
var startPrivate = map[string]func(t testing.TB, users, root string) *harness.Process{
	"password": func(t testing.TB, users, root string) *harness.Process {
		addr := programtest.FreeAddr(t)
		cmd := exec.Command(programtest.Tool(t, harness.Distribution2.Tool), "serve", harness.WritePeerConfig(t, addr, root))
		cmd.Env = []string{"OTEL_TRACES_EXPORTER=none", "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH=" + users}
		return harness.Start(t, addr, cmd)
	},
	"token": func(t testing.TB, users, root string) *harness.Process {
		return harness.StartRegistry(t, root, "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH="+users, "REGISTRY_AUTH_SERVICE=builtin")
	},
}

// An upstream that wants a login: what it may pull is for those who may pull here.
func TestMirror_PrivateUpstream(t *testing.T) {
	for kind, startUpstream := range startPrivate {
		t.Run(kind, func(t *testing.T) {
			users, own := filepath.Join(t.TempDir(), "up"), filepath.Join(t.TempDir(), "own")
			harness.WriteUser(t, users, "ci", "upstream-password")
			harness.WriteUser(t, own, "ada", "own-password")
			root := t.TempDir()
			img := harness.NewImage(t, 27, 2, 100_000)
			open := harness.StartRegistry(t, root)
			img.Push(t, open.Addr, "team/app", "v1")
			open.Stop(t)
			up := startUpstream(t, users, root)
			login := []string{"REGISTRY_PROXY_USERNAME=ci", "REGISTRY_PROXY_PASSWORD=upstream-password"}

			open = startMirror(t, up.Addr, t.TempDir(), login...) // as distribution starts
			img.Pulls(t, open.Addr, "team/app", "v1")
			if !strings.Contains(open.Output(), "proxy.public: true") {
				t.Errorf("no warning about a login without auth:\n%s", open.Output())
			}

			private := startMirror(t, up.Addr, t.TempDir(), append(login, "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH="+own)...)
			path := "http://" + private.Addr + "/v2/team/app/manifests/v1"
			if resp, body := harness.Fetch(t, "GET", path, harness.AcceptAll, nil); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("anonymous: %s %s", resp.Status, body)
			}
			req, _ := http.NewRequestWithContext(t.Context(), "GET", path, nil)
			req.SetBasicAuth("ada", "own-password")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("with a login here: %s", resp.Status)
			}
		})
	}
}

// Images are fetched ahead of time, and what nobody pulls leaves when there is too much.
func TestMirror_SyncAndEvict(t *testing.T) {
	t.Parallel()
	up := harness.StartRegistry(t, t.TempDir())
	one, two := harness.NewImage(t, 30, 2, 500_000), harness.NewImage(t, 33, 2, 500_000)
	one.Push(t, up.Addr, "one", "v1")
	two.Push(t, up.Addr, "two", "v1")
	root := t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yml")
	addr := programtest.FreeAddr(t)
	harness.WriteFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", root, "%UP%", up.Addr).Replace(`version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}, maintenance: {gc: {age: 1s}}}
http: {addr: "%ADDR%"}
proxy:
  maxsize: 1500000
  upstreams: [{prefix: hub, remoteurl: "http://%UP%"}]
  sync: {images: [{repository: hub/one, tags: [v.*], platforms: [linux/amd64]}]}
`)))
	sync := func(args ...string) string {
		t.Helper()
		out, code := harness.Run(t, nil, append([]string{"mirror", "sync", "--config", config}, args...)...)
		if code != 0 {
			t.Fatalf("mirror sync: %d\n%s", code, out)
		}
		return out
	}
	if out := sync(); !strings.Contains(out, "1 image present; fetched 3 blobs") {
		t.Errorf("mirror sync: %s", out)
	}
	if out := sync(); !strings.Contains(out, "fetched 0 blobs") {
		t.Errorf("mirror sync again: %s", out)
	}
	if out, code := harness.Run(t, nil, "mirror", "sync", "--config", config, "hub/none:v1"); code == 0 {
		t.Errorf("an image that is not there: %s", out)
	}
	mirror := harness.Serve(t, addr, nil, config)
	up.Kill()
	one.Pulls(t, mirror.Addr, "hub/one", "v1")
	harness.Start(t, up.Addr, harness.RegistryCommand(up.Addr, t.TempDir())) // what it had does not matter
	if resp, _ := harness.Fetch(t, "GET", "http://"+mirror.Addr+"/v2/hub/one/manifests/v1", harness.AcceptAll, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("deleted upstream: %s", resp.Status)
	}
	two.Push(t, up.Addr, "two", "v1")
	two.Pulls(t, mirror.Addr, "hub/two", "v1")
	there := func(img *harness.Image) bool { return harness.OnDisk(t, root, largest(img)) }
	deadline := time.Now().Add(3 * time.Minute)
	for there(one) && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if there(one) || !there(two) {
		t.Errorf("one is there: %v, two is there: %v\n%s", there(one), there(two), mirror.Output())
	}
}
