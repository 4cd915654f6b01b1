package storage

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
)

// A registry moves from a disk to a bucket while it serves: its tree is copied, then it is read-only
// while what came meanwhile is copied, and then the bucket is served. Single repositories go back by
// export and import.
func TestMoveFromDiskToBucket(t *testing.T) { move(t, s3test.VersityGW) }

func move(t *testing.T, start s3test.Start) {
	root := t.TempDir()
	disk := harness.StartRegistry(t, root)
	early, late := harness.NewImage(t, 101, 3, 20_000), harness.NewImage(t, 102, 2, 20_000)
	early.Push(t, disk.Addr, "team/early", "v1")
	early.Push(t, disk.Addr, "team/late", "v1")
	server, bucket := harness.S3Bucket(t, start)
	copied := map[string]bool{}
	copyTree(t, root, bucket, copied)

	late.Push(t, disk.Addr, "team/late", "v1")
	harness.DeleteReference(t, disk.Addr, "team/early", early.Manifest)
	late.Push(t, disk.Addr, "team/early", "v2")
	if err := disk.Stop(t); err != nil {
		t.Fatal(err)
	}
	disk = harness.StartRegistry(t, root, "REGISTRY_STORAGE_MAINTENANCE_READONLY={enabled: true}")
	late.Pulls(t, disk.Addr, "team/late", "v1")
	copyTree(t, root, bucket, copied)

	moved := harness.StartOnS3(t, server.URL())
	late.Pulls(t, moved.Addr, "team/late", "v1")
	late.Pulls(t, moved.Addr, "team/early", "v2")
	if got := harness.ListTags(t, moved.Addr, "team/early"); got != "v2" {
		t.Errorf("tags in the bucket: %q, want v2", got)
	}
	config := harness.WriteS3Config(t, "127.0.0.1:0", server.URL())
	layout := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{{"verify", "--config", config}, {"export", "--config", config, "team/late", layout}} {
		if out, code := harness.Run(t, nil, args...); code != 0 {
			t.Fatalf("%s: %d\n%s", args[0], code, out)
		}
	}
	back := t.TempDir()
	if out, code := harness.Run(t, nil, "import", "--config", harness.WritePeerConfig(t, "127.0.0.1:0", back), layout, "team/back"); code != 0 {
		t.Fatalf("import: %d\n%s", code, out)
	}
	late.Pulls(t, harness.StartRegistry(t, back).Addr, "team/back", "v1")
}

// copyTree makes the bucket hold what the disk has, as `mc mirror --remove` does. Links are copied again, for
// they may have changed; bytes never do.
func copyTree(t *testing.T, root string, bucket *s3.Bucket, copied map[string]bool) {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "docker"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		key := "some/root/" + filepath.ToSlash(name)
		found[key] = true
		if copied[key] && strings.HasSuffix(key, "/data") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied[key] = true
		_, err = bucket.Put(t.Context(), key, object.Body{Content: bytes.NewReader(content), Size: int64(len(content))}, object.PutOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range copied {
		if !found[key] {
			if err := bucket.DeleteMany(t.Context(), []string{key}); err != nil {
				t.Fatal(err)
			}
			delete(copied, key)
		}
	}
}
