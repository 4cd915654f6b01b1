package maintenance

import (
	"net/http"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

const keepDeleted = "REGISTRY_STORAGE_DELETE_KEEP=168h"

// command runs a command of the registry on the storage of a configuration.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, code := harness.Run(t, nil, args...)
	if code != 0 {
		t.Fatalf("registry %q: %d: %s", args, code, programtest.Tail(out))
	}
	return out
}

// What real clients delete comes back by command, on files and on an object store, also after a
// collection, until it is purged.
func TestRestoreWhatClientsDeleted(t *testing.T) {
	restoreDeleted(t, map[string]s3test.Start{"files": nil, "versitygw": s3test.VersityGW})
}

func TestFull_RestoreWhatClientsDeleted(t *testing.T) {
	restoreDeleted(t, map[string]s3test.Start{"MinIO": s3test.MinIO})
}

func restoreDeleted(t *testing.T, stores map[string]s3test.Start) {
	for store, start := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var p *harness.Process
			var config string
			if store == "files" {
				root := t.TempDir()
				p = harness.StartRegistry(t, root, keepDeleted)
				config = harness.WritePeerConfig(t, "127.0.0.1:0", root)
			} else {
				server, _ := harness.S3Bucket(t, start)
				p = harness.StartOnS3(t, server.URL(), keepDeleted)
				config = harness.WriteS3Config(t, "127.0.0.1:0", server.URL())
			}
			image, index := harness.NewImage(t, 301, 2, 20_000), harness.NewIndex(t, harness.NewImage(t, 302, 1, 10_000), harness.NewImage(t, 303, 1, 10_000))
			image.Push(t, p.Addr, "web/app", "v1")
			image.Push(t, p.Addr, "web/app", "stable")
			index.Push(t, p.Addr, "web/multi", "v1")

			harness.RunTool(t, "regctl", "--host", "reg="+p.Addr+",tls=disabled", "tag", "delete", p.Addr+"/web/app:v1")
			harness.RunTool(t, "crane", "--insecure", "delete", p.Addr+"/web/app@"+image.Manifest)
			harness.Fetch(t, "DELETE", "http://"+p.Addr+"/v2/web/multi/_slipway/repository", nil, nil)
			for _, gone := range []string{"web/app/manifests/stable", "web/app/manifests/" + image.Manifest, "web/multi/manifests/v1"} {
				if resp, _ := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/"+gone, harness.AcceptAll, nil); resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: %s", gone, resp.Status)
				}
			}
			if store == "files" { // on an object store a collection takes minutes
				if out := command(t, "garbage-collect", "-m", "--age", "0", config); !strings.Contains(out, "deleted but restorable (--purge-deleted frees them)") {
					t.Errorf("the summary doesn't mention what can be restored: %s", programtest.Tail(out))
				}
			}
			if out := command(t, "restore", "--config", config, "--list", "web/app"); !strings.Contains(out, "tag v1") || !strings.Contains(out, "1 manifest, tag stable") {
				t.Errorf("the list is %s", out)
			}
			command(t, "restore", "--config", config, "web/app:v1")
			image.Pulls(t, p.Addr, "web/app", "v1")
			command(t, "restore", "--config", config, "web/app@"+image.Manifest)
			image.Pulls(t, p.Addr, "web/app", "stable")
			command(t, "restore", "--config", config, "web/multi")
			index.Pulls(t, p.Addr, "web/multi", "v1")

			// A tag that was overwritten.
			other := harness.NewImage(t, 304, 1, 5_000)
			other.Push(t, p.Addr, "web/app", "v1")
			if out := command(t, "restore", "--config", config, "--list", "web/app:v1"); !strings.Contains(out, image.Manifest+"  available") || !strings.Contains(out, other.Manifest+"  current") {
				t.Errorf("the history is %s", out)
			}
			command(t, "restore", "--config", config, "web/app:v1@"+image.Manifest)
			image.Pulls(t, p.Addr, "web/app", "v1")

			if store == "files" {
				harness.DeleteReference(t, p.Addr, "web/app", image.Manifest)
				command(t, "garbage-collect", "-m", "--age", "0", "--purge-deleted", config)
				if out, code := harness.Run(t, nil, "restore", "--config", config, "web/app@"+image.Manifest); code == 0 {
					t.Errorf("what was purged is restored: %s", out)
				}
			}
		})
	}
}
