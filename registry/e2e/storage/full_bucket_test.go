package storage

import (
	"bytes"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// A MinIO without space takes no writes, but what frees space works: deletions, and a
// collection beside a registry. A registry doesn't start meanwhile, as it couldn't find out
// whether replicas may share the bucket.
func TestFull_BucketIsFull(t *testing.T) {
	t.Parallel()
	dir := programtest.Mount(t, "tmpfs", "size=64m")
	server := s3test.MinIO(t, dir)
	bucket := server.Bucket(t, "images")
	p := harness.StartOnS3(t, server.URL())
	images := map[string]*harness.Image{}
	for i, tag := range []string{"kept", "deleted", "untagged"} {
		images[tag] = harness.NewImage(t, uint64(210+i), 1, 100_000)
		images[tag].Push(t, p.Addr, "app", tag)
	}
	fill(t, dir, space)

	blob := []byte("more")
	if resp, _ := harness.Fetch(t, "POST", "http://"+p.Addr+"/v2/app/blobs/uploads/?digest="+harness.DigestOf(blob), nil, bytes.NewReader(blob)); resp.StatusCode < 500 {
		t.Fatalf("the bucket is not full: %s", resp.Status)
	}
	harness.DeleteReference(t, p.Addr, "app", images["deleted"].Manifest)
	harness.DeleteReference(t, p.Addr, "app", "untagged")
	if got := harness.ListTags(t, p.Addr, "app"); got != "kept" {
		t.Errorf("tags %q are left", got)
	}
	config := harness.WriteS3Config(t, programtest.FreeAddr(t), server.URL())
	if out, code := harness.Run(t, nil, "serve", config); code == 0 || !strings.Contains(out, "the bucket is full: free space first") {
		t.Errorf("a start on a full bucket: %d, %s", code, out)
	}
	if out, code := harness.Run(t, nil, "garbage-collect", "-m", "--age", "0s", config); code != 0 {
		t.Errorf("garbage-collect: %d, %s", code, out)
	}
	for tag, img := range images {
		for d := range img.Blobs {
			if kept := tag == "kept"; harness.InBucket(t, bucket, d) != kept {
				t.Errorf("%s of %s is in the bucket: %v, want %v", d, tag, !kept, kept)
			}
		}
	}
	images["kept"].Pulls(t, p.Addr, "app", "kept")
}
