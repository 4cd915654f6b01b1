package clients

import (
	"slices"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
)

func s3Env(t *testing.T, start s3test.Start) []string {
	t.Helper()
	server, _ := harness.S3Bucket(t, start)
	return []string{
		"REGISTRY_STORAGE_S3_BUCKET=images", "REGISTRY_STORAGE_S3_REGION=us-east-1", "REGISTRY_STORAGE_S3_REGIONENDPOINT=" + server.URL(),
		"REGISTRY_STORAGE_S3_ACCESSKEY=" + s3test.AccessKey, "REGISTRY_STORAGE_S3_SECRETKEY=" + s3test.SecretKey, "REGISTRY_STORAGE_S3_ROOTDIRECTORY=/some/where",
	}
}

// docker, crane and skopeo push, pull, copy and delete on each kind of storage, and each has what
// another one has pushed. S3 and Azure give blobs to them by redirects.
func TestClientsOnEachStore(t *testing.T) {
	clientsOn(t, map[string]func(t *testing.T) []string{
		"filesystem": func(t *testing.T) []string {
			return []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + t.TempDir()}
		},
		"s3":    func(t *testing.T) []string { return s3Env(t, s3test.VersityGW) },
		"azure": func(t *testing.T) []string { return harness.AzureEnv(harness.StartAzurite(t)) },
		"gcs":   func(t *testing.T) []string { return harness.GCSEnv(harness.StartGCS(t)) },
	})
}

func TestFull_ClientsOnMinIO(t *testing.T) {
	clientsOn(t, map[string]func(t *testing.T) []string{
		"s3": func(t *testing.T) []string { return s3Env(t, s3test.MinIO) },
	})
}

func clientsOn(t *testing.T, stores map[string]func(t *testing.T) []string) {
	e := harness.StartEngine(t)
	e.Busybox()
	for name, env := range stores {
		t.Run(name, func(t *testing.T) {
			p := harness.StartOnStore(t, env(t)...)
			docker, crane, skopeo := p.Addr+"/team/docker:1", p.Addr+"/team/crane:2", p.Addr+"/team/skopeo:3"
			id := func(ref string) string {
				t.Helper()
				return strings.TrimSpace(e.Run("image", "inspect", "-f", "{{.Id}}", ref))
			}
			e.Build(docker)
			built := id(docker)
			e.Run("push", docker)
			e.Run("rmi", docker)
			e.Run("pull", docker)
			if got := id(docker); got != built {
				t.Errorf("docker pulled %s, pushed %s", got, built)
			}

			harness.RunTool(t, "crane", "validate", "--remote", docker, "--insecure")
			harness.RunTool(t, "crane", "copy", docker, crane, "--insecure")
			layout := t.TempDir()
			harness.RunTool(t, "crane", "pull", "--format=oci", crane, layout, "--insecure")
			harness.RunTool(t, "crane", "push", layout, p.Addr+"/team/again:1", "--insecure")

			dir := "dir:" + t.TempDir()
			harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+crane, dir)
			harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", dir, "docker://"+skopeo)
			digest := strings.TrimSpace(harness.RunTool(t, "crane", "digest", docker, "--insecure"))
			for _, ref := range []string{crane, skopeo, p.Addr + "/team/again:1"} {
				if got := strings.TrimSpace(harness.RunTool(t, "crane", "digest", ref, "--insecure")); got != digest {
					t.Errorf("%s is %s, want %s", ref, got, digest)
				}
			}
			e.Run("pull", skopeo)
			if got := id(skopeo); got != built {
				t.Errorf("docker pulled %s of what skopeo pushed, want %s", got, built)
			}
			e.Run("rmi", docker, skopeo)

			harness.RunTool(t, "skopeo", "delete", "--tls-verify=false", "docker://"+skopeo)
			if out, err := harness.TryTool(t, nil, "crane", "manifest", skopeo, "--insecure"); err == nil || !strings.Contains(out, "MANIFEST_UNKNOWN") {
				t.Errorf("a deleted image: %v\n%s", err, out)
			}
			harness.RunTool(t, "crane", "delete", p.Addr+"/team/crane@"+digest, "--insecure")
			if out, err := e.Try("pull", crane); err == nil {
				t.Errorf("a deleted image is pulled: %s", out)
			}
			e.Run("pull", docker) // its blobs are shared with those that were deleted
			if got := strings.Fields(harness.RunTool(t, "crane", "catalog", p.Addr, "--insecure")); !slices.Contains(got, "team/docker") || !slices.Contains(got, "team/again") {
				t.Errorf("catalog: %q", got)
			}
			if err := p.Stop(t); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
