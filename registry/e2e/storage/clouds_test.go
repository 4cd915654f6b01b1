package storage

import (
	"fmt"
	"os"
	"os/exec"
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
func TestFull_Azure_ExchangeWithDistribution(t *testing.T) {
	url := harness.StartAzurite(t)
	a, b := harness.StartOnStore(t, harness.AzureEnv(url)...), harness.StartOnStore(t, harness.AzureEnv(url)...)
	addr := programtest.FreeAddr(t)
	config := t.TempDir() + "/config.yml"
	harness.WriteFile(t, config, fmt.Appendf(nil, azurePeer, url, addr))
	cmd := exec.Command(programtest.Tool(t, "distribution3"), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	peer := harness.Start(t, addr, cmd)

	harness.Exchange(t, a.Addr, peer.Addr, "exchange", 1)
	// A layer over one that distribution has written as an append blob.
	theirs := harness.NewImage(t, 2, 3, 300_000)
	theirs.Push(t, peer.Addr, "team/theirs", "v1")
	theirs.Push(t, b.Addr, "team/again", "v2")
	theirs.Pulls(t, peer.Addr, "team/again", "v2")
}
