package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// startPrivate starts registries that want a login: by password, and by tokens.
var startPrivate = map[string]func(t testing.TB, users, root string) *process{
	"password": func(t testing.TB, users, root string) *process {
		addr := programtest.FreeAddr(t)
		cmd := exec.Command(programtest.Tool(t, "distribution3"), "serve", writePeerConfig(t, addr, root))
		cmd.Env = []string{"OTEL_TRACES_EXPORTER=none", "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH=" + users}
		return start(t, addr, cmd)
	},
	"token": func(t testing.TB, users, root string) *process {
		return startSlipway(t, root, "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH="+users, "REGISTRY_AUTH_SERVICE=builtin")
	},
}

// An upstream that wants a login: what it may pull is for those who may pull here.
func TestMirror_PrivateUpstream(t *testing.T) {
	for kind, startUpstream := range startPrivate {
		t.Run(kind, func(t *testing.T) {
			users, own := filepath.Join(t.TempDir(), "up"), filepath.Join(t.TempDir(), "own")
			writeUser(t, users, "ci", "upstream-password")
			writeUser(t, own, "ada", "own-password")
			root := t.TempDir()
			img := newImage(t, 27, 2, 100_000)
			open := startSlipway(t, root)
			img.push(t, open.addr, "team/app", "v1")
			open.stop(t)
			up := startUpstream(t, users, root)
			login := []string{"REGISTRY_PROXY_USERNAME=ci", "REGISTRY_PROXY_PASSWORD=upstream-password"}

			cmd := mirrorCommand(programtest.FreeAddr(t), up.addr, t.TempDir(), login...)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "public: true") {
				t.Errorf("a mirror with a login and without auth: %v\n%s", err, out)
			}
			public := startMirror(t, up.addr, t.TempDir(), append(login, "REGISTRY_PROXY_PUBLIC=true")...)
			img.pulls(t, public.addr, "team/app", "v1")

			private := startMirror(t, up.addr, t.TempDir(), append(login, "REGISTRY_AUTH_HTPASSWD_REALM=x", "REGISTRY_AUTH_HTPASSWD_PATH="+own)...)
			path := "http://" + private.addr + "/v2/team/app/manifests/v1"
			if resp, body := fetch(t, "GET", path, acceptAll, nil); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
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

			wrong := startMirror(t, up.addr, t.TempDir(), "REGISTRY_PROXY_USERNAME=ci", "REGISTRY_PROXY_PASSWORD=wrong", "REGISTRY_PROXY_PUBLIC=true")
			resp, body := fetch(t, "GET", "http://"+wrong.addr+"/v2/team/app/manifests/v1", acceptAll, nil)
			if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(body), `"UNAUTHORIZED"`) || strings.Contains(wrong.Output(), "wrong") {
				t.Errorf("a wrong login: %s %s\n%s", resp.Status, body, wrong.Output())
			}
		})
	}
}

// Images are fetched ahead of time, and what nobody pulls leaves when there is too much.
func TestMirror_SyncAndEvict(t *testing.T) {
	up := startSlipway(t, t.TempDir())
	one, two := newImage(t, 30, 2, 500_000), newImage(t, 33, 2, 500_000)
	one.push(t, up.addr, "one", "v1")
	two.push(t, up.addr, "two", "v1")
	root := t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yml")
	addr := programtest.FreeAddr(t)
	writeFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", root, "%UP%", up.addr).Replace(`version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}, maintenance: {gc: {age: 1s}}}
http: {addr: "%ADDR%"}
proxy:
  maxsize: 1500000
  interval: 1s
  upstreams: [{prefix: hub, remoteurl: "http://%UP%"}]
  sync: {images: [{repository: hub/one, tags: [v.*], platforms: [linux/amd64]}]}
`)))
	sync := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(binary, append([]string{"mirror", "sync", config}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("mirror sync: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := sync(); !strings.Contains(out, "1 image present; fetched 3 blobs") {
		t.Errorf("mirror sync: %s", out)
	}
	if out := sync(); !strings.Contains(out, "fetched 0 blobs") {
		t.Errorf("mirror sync again: %s", out)
	}
	if out, err := exec.Command(binary, "mirror", "sync", config, "hub/none:v1").CombinedOutput(); err == nil {
		t.Errorf("an image that is not there: %s", out)
	}
	cmd := exec.Command(binary, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	mirror := start(t, addr, cmd)
	up.Kill()
	one.pulls(t, mirror.addr, "hub/one", "v1")
	start(t, up.addr, slipwayCommand(up.addr, t.TempDir())) // what it had does not matter
	if resp, _ := fetch(t, "GET", "http://"+mirror.addr+"/v2/hub/one/manifests/v1", acceptAll, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("deleted upstream: %s", resp.Status)
	}
	two.push(t, up.addr, "two", "v1")
	two.pulls(t, mirror.addr, "hub/two", "v1")
	there := func(img *image) bool { return onDisk(t, root, largest(img)) }
	deadline := time.Now().Add(30 * time.Second)
	for there(one) && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if there(one) || !there(two) {
		t.Errorf("one is there: %v, two is there: %v\n%s", there(one), there(two), mirror.Output())
	}
}
