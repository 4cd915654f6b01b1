package mirror

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// A server fetches by itself what its schedule names.
func TestMirror_SyncBySchedule(t *testing.T) {
	up := harness.StartRegistry(t, t.TempDir())
	img := harness.NewImage(t, 170, 2, 100_000)
	img.Push(t, up.Addr, "app", "v1")
	root := t.TempDir()
	config, addr := filepath.Join(t.TempDir(), "config.yml"), programtest.FreeAddr(t)
	harness.WriteFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", root, "%UP%", up.Addr).Replace(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}}
http: {addr: "%ADDR%"}
proxy:
  upstreams: [{prefix: hub, remoteurl: "http://%UP%"}]
  sync: {interval: 200ms, images: [{repository: hub/app, tags: [v1]}]}
`)))
	cmd := exec.Command(harness.Binary, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	mirror := harness.Start(t, addr, cmd)
	waitStored(t, &place{holds: func(digest string) bool { return harness.OnDisk(t, root, digest) }}, img)
	up.Kill()
	img.Pulls(t, mirror.Addr, "hub/app", "v1")
}
