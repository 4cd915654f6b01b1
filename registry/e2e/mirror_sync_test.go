package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// A server fetches by itself what its schedule names.
func TestMirror_SyncBySchedule(t *testing.T) {
	up := startSlipway(t, t.TempDir())
	img := newImage(t, 170, 2, 100_000)
	img.push(t, up.addr, "app", "v1")
	root := t.TempDir()
	config, addr := filepath.Join(t.TempDir(), "config.yml"), programtest.FreeAddr(t)
	writeFile(t, config, []byte(strings.NewReplacer("%ADDR%", addr, "%ROOT%", root, "%UP%", up.addr).Replace(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%ROOT%"}}
http: {addr: "%ADDR%"}
proxy:
  upstreams: [{prefix: hub, remoteurl: "http://%UP%"}]
  sync: {interval: 200ms, images: [{repository: hub/app, tags: [v1]}]}
`)))
	cmd := exec.Command(binary, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	mirror := start(t, addr, cmd)
	waitStored(t, &place{holds: func(digest string) bool { return onDisk(t, root, digest) }}, img)
	up.Kill()
	img.pulls(t, mirror.addr, "hub/app", "v1")
}
