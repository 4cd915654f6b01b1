package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"slipway/registry/internal/storage/azure"
	"slipway/registry/internal/storage/gcs/gcstest"
	"slipway/shared/programtest"
)

// Azurite's account.
const (
	AzureAccount = "devstoreaccount1"
	AzureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// StartAzurite returns the address of the account's blobs, with an empty container
// registry.
func StartAzurite(t *testing.T) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	programtest.Start(t, exec.Command(programtest.Tool(t, "azurite-blob"), "--blobHost", host, "--blobPort", port,
		"--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"), "http://"+addr+"/")
	service := "http://" + addr + "/" + AzureAccount
	b, err := azure.New(azure.Options{Account: AzureAccount, Key: AzureKey, ServiceURL: service, Container: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return service
}

// StartOnStore serves an object store with the registry under test.
func StartOnStore(t *testing.T, env ...string) *Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return Serve(t, addr, append([]string{
		"REGISTRY_HTTP_ADDR=" + addr,
		"REGISTRY_HTTP_SECRET=shared-by-all-replicas",
		"REGISTRY_STORAGE_DELETE_ENABLED=true",
		"REGISTRY_LOG_LEVEL=warn",
		"REGISTRY_LOG_ACCESSLOG_DISABLED=true",
		"REGISTRY_SLIPWAY_OBJECTSTORE_SPOOL=" + t.TempDir(),
	}, env...))
}

// AzureEnv returns the variables that configure a registry on Azurite.
func AzureEnv(url string) []string {
	return []string{
		"REGISTRY_STORAGE_AZURE_ACCOUNTNAME=" + AzureAccount,
		"REGISTRY_STORAGE_AZURE_ACCOUNTKEY=" + AzureKey,
		"REGISTRY_STORAGE_AZURE_CONTAINER=registry",
		"REGISTRY_STORAGE_AZURE_SERVICEURL=" + url,
		"REGISTRY_STORAGE_AZURE_ROOTDIRECTORY=/some/where",
	}
}

// StartGCS returns the address of a Google Cloud Storage with an empty bucket registry, which honors preconditions.
func StartGCS(t *testing.T) string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	programtest.Start(t, exec.Command(programtest.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
		"-backend", "memory", "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error"), "http://"+addr+"/storage/v1/b")
	front := httptest.NewServer(gcstest.New(&url.URL{Scheme: "http", Host: addr}))
	t.Cleanup(front.Close)
	addr = strings.TrimPrefix(front.URL, "http://")
	resp, body := Fetch(t, http.MethodPost, "http://"+addr+"/storage/v1/b", http.Header{"Content-Type": {"application/json"}}, strings.NewReader(`{"name": "registry"}`))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("making the bucket: %d %s", resp.StatusCode, body)
	}
	return addr
}

// GCSEnv returns the variables that configure a registry on the server of startGCS.
func GCSEnv(addr string) []string {
	return []string{"STORAGE_EMULATOR_HOST=" + addr, "REGISTRY_STORAGE_GCS_BUCKET=registry", "REGISTRY_STORAGE_GCS_ROOTDIRECTORY=some/where"}
}
