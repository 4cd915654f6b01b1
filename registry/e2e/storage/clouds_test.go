package storage

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

const azurePeer = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  azure:
    accountname: ` + harness.AzureAccount + `
    accountkey: ` + harness.AzureKey + `
    container: registry
    serviceurl: %s
    rootdirectory: /some/where
    credentials: {type: shared_key}
  delete: {enabled: true}
  redirect: {disable: true}
http: {addr: "%s", secret: shared-by-all-replicas}
`

// What one has pushed the other serves, on the same container.
func TestAzure_ExchangeWithDistribution(t *testing.T) {
	url := harness.StartAzurite(t)
	a, b := harness.StartOnStore(t, harness.AzureEnv(url)...), harness.StartOnStore(t, harness.AzureEnv(url)...)
	addr := programtest.FreeAddr(t)
	config := t.TempDir() + "/config.yml"
	harness.WriteFile(t, config, fmt.Appendf(nil, azurePeer, url, addr))
	cmd := exec.Command(programtest.Tool(t, "distribution3"), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	peer := harness.Start(t, addr, cmd)

	ours, theirs := harness.NewImage(t, 1, 3, 300_000), harness.NewImage(t, 2, 3, 300_000)
	ours.Push(t, a.Addr, "team/ours", "v1")
	theirs.Push(t, peer.Addr, "team/theirs", "v1")
	for _, reader := range []*harness.Process{a, b, peer} {
		ours.Pulls(t, reader.Addr, "team/ours", "v1")
		theirs.Pulls(t, reader.Addr, "team/theirs", "v1")
		if got := harness.ListTags(t, reader.Addr, "team/theirs"); got != "v1" {
			t.Errorf("tags: %s", got)
		}
		if _, body := harness.Fetch(t, http.MethodGet, "http://"+reader.Addr+"/v2/_catalog", nil, nil); !bytes.Contains(body, []byte(`["team/ours","team/theirs"]`)) {
			t.Errorf("catalog: %s", body)
		}
	}
	// A layer over one that distribution has written as an append blob.
	theirs.Push(t, b.Addr, "team/again", "v2")
	theirs.Pulls(t, peer.Addr, "team/again", "v2")
	usesCrane(t, a.Addr, b.Addr)
	harness.DeleteReference(t, a.Addr, "team/theirs", theirs.Manifest)
	for _, reader := range []*harness.Process{a, b, peer} {
		if resp, _ := harness.Fetch(t, http.MethodGet, "http://"+reader.Addr+"/v2/team/theirs/manifests/v1", nil, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a deleted manifest is answered with %d", resp.StatusCode)
		}
	}
}

// usesCrane pushes an image to one replica and pulls it from the other.
func usesCrane(t *testing.T, push, pull string) {
	t.Helper()
	img := harness.NewImage(t, 9, 4, 200_000)
	layout := img.Layout(t, "v1")
	harness.RunTool(t, "crane", "push", layout, push+"/crane/image:v1", "--insecure")
	if got := strings.TrimSpace(harness.RunTool(t, "crane", "digest", pull+"/crane/image:v1", "--insecure")); got != img.Manifest {
		t.Errorf("crane pushed %s, want %s", got, img.Manifest)
	}
	harness.RunTool(t, "crane", "validate", "--remote", pull+"/crane/image:v1", "--insecure")
	harness.RunTool(t, "crane", "copy", pull+"/crane/image:v1", pull+"/crane/copy:v2", "--insecure")
	img.Pulls(t, push, "crane/copy", "v2")
}

func TestGCS(t *testing.T) {
	env := harness.GCSEnv(harness.StartGCS(t))
	a, b := harness.StartOnStore(t, env...), harness.StartOnStore(t, env...)
	img := harness.NewImage(t, 1, 3, 300_000)
	img.Push(t, a.Addr, "team/image", "v1")
	img.Pulls(t, b.Addr, "team/image", "v1")
	usesCrane(t, a.Addr, b.Addr)
}
