package e2e

import (
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/storage/s3/s3test"
)

func s3Env(server *s3test.Server) []string {
	return []string{
		"REGISTRY_STORAGE_S3_BUCKET=images", "REGISTRY_STORAGE_S3_REGION=us-east-1", "REGISTRY_STORAGE_S3_REGIONENDPOINT=" + server.URL(),
		"REGISTRY_STORAGE_S3_ACCESSKEY=" + s3test.AccessKey, "REGISTRY_STORAGE_S3_SECRETKEY=" + s3test.SecretKey, "REGISTRY_STORAGE_S3_ROOTDIRECTORY=/some/where",
	}
}

// docker, crane and skopeo push, pull, copy and delete on each kind of storage, and each has what
// another one has pushed. S3 and Azure give blobs to them by redirects.
func TestClientsOnEachStore(t *testing.T) {
	e := startEngine(t)
	e.busybox()
	stores := map[string]func(t *testing.T) []string{
		"filesystem": func(t *testing.T) []string {
			return []string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + t.TempDir()}
		},
		"s3": func(t *testing.T) []string {
			server, _ := minioBucket(t)
			return s3Env(server)
		},
		"azure": func(t *testing.T) []string { return azureEnv(startAzurite(t)) },
		"gcs":   func(t *testing.T) []string { return gcsEnv(startGCS(t)) },
	}
	for name, env := range stores {
		t.Run(name, func(t *testing.T) {
			p := startOnStore(t, env(t)...)
			docker, crane, skopeo := p.addr+"/team/docker:1", p.addr+"/team/crane:2", p.addr+"/team/skopeo:3"
			id := func(ref string) string {
				t.Helper()
				return strings.TrimSpace(e.run("image", "inspect", "-f", "{{.Id}}", ref))
			}
			e.build(docker)
			built := id(docker)
			e.run("push", docker)
			e.run("rmi", docker)
			e.run("pull", docker)
			if got := id(docker); got != built {
				t.Errorf("docker pulled %s, pushed %s", got, built)
			}

			runTool(t, "crane", "validate", "--remote", docker, "--insecure")
			runTool(t, "crane", "copy", docker, crane, "--insecure")
			layout := t.TempDir()
			runTool(t, "crane", "pull", "--format=oci", crane, layout, "--insecure")
			runTool(t, "crane", "push", layout, p.addr+"/team/again:1", "--insecure")

			dir := "dir:" + t.TempDir()
			runTool(t, "skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+crane, dir)
			runTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", dir, "docker://"+skopeo)
			digest := strings.TrimSpace(runTool(t, "crane", "digest", docker, "--insecure"))
			for _, ref := range []string{crane, skopeo, p.addr + "/team/again:1"} {
				if got := strings.TrimSpace(runTool(t, "crane", "digest", ref, "--insecure")); got != digest {
					t.Errorf("%s is %s, want %s", ref, got, digest)
				}
			}
			e.run("pull", skopeo)
			if got := id(skopeo); got != built {
				t.Errorf("docker pulled %s of what skopeo pushed, want %s", got, built)
			}
			e.run("rmi", docker, skopeo)

			runTool(t, "skopeo", "delete", "--tls-verify=false", "docker://"+skopeo)
			if out, err := tryTool(t, nil, "crane", "manifest", skopeo, "--insecure"); err == nil || !strings.Contains(out, "MANIFEST_UNKNOWN") {
				t.Errorf("a deleted image: %v\n%s", err, out)
			}
			runTool(t, "crane", "delete", p.addr+"/team/crane@"+digest, "--insecure")
			if out, err := e.try("pull", crane); err == nil {
				t.Errorf("a deleted image is pulled: %s", out)
			}
			e.run("pull", docker) // its blobs are shared with those that were deleted
			if got := strings.Fields(runTool(t, "crane", "catalog", p.addr, "--insecure")); !slices.Contains(got, "team/docker") || !slices.Contains(got, "team/again") {
				t.Errorf("catalog: %q", got)
			}
			if err := p.stop(t); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
