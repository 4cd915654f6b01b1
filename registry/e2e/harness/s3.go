package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// S3Bucket starts an S3 server with an empty bucket.
func S3Bucket(t testing.TB, start s3test.Start) (*s3test.Server, *s3.Bucket) {
	t.Helper()
	server := start(t, t.TempDir())
	return server, server.Bucket(t, "images")
}

const s3Config = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  s3: {bucket: images, region: us-east-1, regionendpoint: "%ENDPOINT%", forcepathstyle: true, secure: false, accesskey: %ACCESS%, secretkey: %SECRET%, rootdirectory: /some/root}
  delete: {enabled: true}
  redirect: {disable: true}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
`

// WriteS3Config writes a configuration with the bucket at the endpoint.
func WriteS3Config(t testing.TB, addr, endpoint string) string {
	t.Helper()
	text := strings.NewReplacer("%ENDPOINT%", endpoint, "%ADDR%", addr, "%ACCESS%", s3test.AccessKey, "%SECRET%", s3test.SecretKey).Replace(s3Config)
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// StartOnS3 starts a replica. The environment comes on top of the file.
func StartOnS3(t testing.TB, endpoint string, env ...string) *Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	env = append([]string{"REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}, env...)
	return Serve(t, addr, env, WriteS3Config(t, addr, endpoint))
}

// InBucket reports whether the bucket has the bytes of a blob.
func InBucket(t testing.TB, b object.Bucket, digest string) bool {
	t.Helper()
	hex := strings.TrimPrefix(digest, "sha256:")
	page, err := b.List(t.Context(), "some/root/docker/registry/v2/blobs/sha256/"+hex[:2]+"/"+hex, object.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Entries) > 0
}
