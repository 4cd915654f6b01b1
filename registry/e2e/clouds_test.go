package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/registry/internal/storage/azure"
	"slipway/shared/programtest"
)

// Azurite's account.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// startAzurite returns the address of the account's blobs, with an empty container
// registry.
func startAzurite(t *testing.T) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	programtest.Start(t, exec.Command(programtest.Tool(t, "azurite-blob"), "--blobHost", host, "--blobPort", port,
		"--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"), "http://"+addr+"/")
	url := "http://" + addr + "/" + azureAccount
	b, err := azure.New(azure.Options{Account: azureAccount, Key: azureKey, ServiceURL: url, Container: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}

// startOnStore serves an object store with the registry under test.
func startOnStore(t *testing.T, env ...string) *process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(binary, "serve")
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_SECRET=shared-by-all-replicas",
		"REGISTRY_STORAGE_DELETE_ENABLED=true",
		"REGISTRY_LOG_LEVEL=warn",
		"REGISTRY_LOG_ACCESSLOG_DISABLED=true",
		"REGISTRY_SLIPWAY_OBJECTSTORE_SPOOL=" + t.TempDir(),
	}, env...)
	return start(t, addr, cmd)
}

func azureEnv(url string) []string {
	return []string{
		"REGISTRY_STORAGE_AZURE_ACCOUNTNAME=" + azureAccount,
		"REGISTRY_STORAGE_AZURE_ACCOUNTKEY=" + azureKey,
		"REGISTRY_STORAGE_AZURE_CONTAINER=registry",
		"REGISTRY_STORAGE_AZURE_SERVICEURL=" + url,
		"REGISTRY_STORAGE_AZURE_ROOTDIRECTORY=/some/where",
	}
}

const azurePeer = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  azure:
    accountname: ` + azureAccount + `
    accountkey: ` + azureKey + `
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
	url := startAzurite(t)
	a, b := startOnStore(t, azureEnv(url)...), startOnStore(t, azureEnv(url)...)
	addr := programtest.FreeAddr(t)
	config := t.TempDir() + "/config.yml"
	writeFile(t, config, fmt.Appendf(nil, azurePeer, url, addr))
	cmd := exec.Command(programtest.Tool(t, "distribution3"), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	peer := start(t, addr, cmd)

	ours, theirs := newImage(t, 1, 3, 300_000), newImage(t, 2, 3, 300_000)
	ours.push(t, a.addr, "team/ours", "v1")
	theirs.push(t, peer.addr, "team/theirs", "v1")
	for _, reader := range []*process{a, b, peer} {
		ours.pulls(t, reader.addr, "team/ours", "v1")
		theirs.pulls(t, reader.addr, "team/theirs", "v1")
		if got := listTags(t, reader.addr, "team/theirs"); got != "v1" {
			t.Errorf("tags: %s", got)
		}
		if _, body := fetch(t, http.MethodGet, "http://"+reader.addr+"/v2/_catalog", nil, nil); !bytes.Contains(body, []byte(`["team/ours","team/theirs"]`)) {
			t.Errorf("catalog: %s", body)
		}
	}
	// A layer over one that distribution has written as an append blob.
	theirs.push(t, b.addr, "team/again", "v2")
	theirs.pulls(t, peer.addr, "team/again", "v2")
	usesCrane(t, a.addr, b.addr)
	deleteReference(t, a.addr, "team/theirs", theirs.manifest)
	for _, reader := range []*process{a, b, peer} {
		if resp, _ := fetch(t, http.MethodGet, "http://"+reader.addr+"/v2/team/theirs/manifests/v1", nil, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a deleted manifest is answered with %d", resp.StatusCode)
		}
	}
}

// usesCrane pushes an image to one replica and pulls it from the other.
func usesCrane(t *testing.T, push, pull string) {
	t.Helper()
	img := newImage(t, 9, 4, 200_000)
	layout := img.layout(t, "v1")
	runTool(t, "crane", "push", layout, push+"/crane/image:v1", "--insecure")
	if got := strings.TrimSpace(runTool(t, "crane", "digest", pull+"/crane/image:v1", "--insecure")); got != img.manifest {
		t.Errorf("crane pushed %s, want %s", got, img.manifest)
	}
	runTool(t, "crane", "validate", "--remote", pull+"/crane/image:v1", "--insecure")
	runTool(t, "crane", "copy", pull+"/crane/image:v1", pull+"/crane/copy:v2", "--insecure")
	img.pulls(t, push, "crane/copy", "v2")
}

// startGCS returns the address of a Google Cloud Storage with an empty bucket registry.
func startGCS(t *testing.T) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	programtest.Start(t, exec.Command(programtest.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
		"-backend", "memory", "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error"), "http://"+addr+"/storage/v1/b")
	resp, body := fetch(t, http.MethodPost, "http://"+addr+"/storage/v1/b", http.Header{"Content-Type": {"application/json"}}, strings.NewReader(`{"name": "registry"}`))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("making the bucket: %d %s", resp.StatusCode, body)
	}
	return addr
}

func gcsEnv(addr string) []string {
	return []string{"STORAGE_EMULATOR_HOST=" + addr, "REGISTRY_STORAGE_GCS_BUCKET=registry", "REGISTRY_STORAGE_GCS_ROOTDIRECTORY=some/where"}
}

func TestGCS(t *testing.T) {
	env := gcsEnv(startGCS(t))
	a, b := startOnStore(t, env...), startOnStore(t, env...)
	img := newImage(t, 1, 3, 300_000)
	img.push(t, a.addr, "team/image", "v1")
	img.pulls(t, b.addr, "team/image", "v1")
	usesCrane(t, a.addr, b.addr)
}
