package mirror

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// place is a storage that mirrors of an upstream keep their cache on.
type place struct {
	command func(addr string, env ...string) *exec.Cmd // a mirror there
	holds   func(digest string) bool                   // whether the bytes of a blob are there
	uploads func() []string                            // what uploads and temporary files are there
	config  string                                     // of the storage, for commands
	lease   time.Duration                              // how long the lease of a dead mirror may last
}

// start starts a mirror.
func (p *place) start(t testing.TB, env ...string) *harness.Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return harness.Start(t, addr, p.command(addr, env...))
}

// allPlaces are the storages that mirrors are tried on.
var allPlaces = map[string]func(t *testing.T, upstream string) *place{"filesystem": onFilesystem, "MinIO": onMinIO}

func onFilesystem(t *testing.T, upstream string) *place {
	root := t.TempDir()
	return &place{
		command: func(addr string, env ...string) *exec.Cmd { return mirrorCommand(addr, upstream, root, env...) },
		holds:   func(digest string) bool { return harness.OnDisk(t, root, digest) },
		uploads: func() []string { return harness.Debris(t, root) },
		config:  writeConfig(t, root),
	}
}

func onMinIO(t *testing.T, upstream string) *place { return onS3(t, s3test.MinIO, upstream) }

func onS3(t *testing.T, start s3test.Start, upstream string) *place {
	server, bucket := harness.S3Bucket(t, start)
	return onBucket(t, bucket, server.URL(), upstream)
}

// onBucket reaches the bucket through the endpoint.
func onBucket(t *testing.T, bucket object.Bucket, endpoint, upstream string) *place {
	return &place{
		command: func(addr string, env ...string) *exec.Cmd {
			cmd := exec.Command(harness.Binary, "serve", harness.WriteS3Config(t, addr, endpoint))
			cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "REGISTRY_PROXY_REMOTEURL=http://" + upstream}, env...)
			return cmd
		},
		holds: func(digest string) bool { return harness.InBucket(t, bucket, digest) },
		uploads: func() (left []string) {
			for after := ""; ; {
				page, err := bucket.List(t.Context(), "some/root/", object.ListOptions{After: after})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					if after = e.Key; strings.Contains(e.Key, "/_uploads/") {
						left = append(left, e.Key)
					}
				}
				if page.Next != "" {
					after = page.Next
				}
				if !page.More {
					break
				}
			}
			return left
		},
		config: harness.WriteS3Config(t, "127.0.0.1:0", endpoint),
		lease:  40 * time.Second,
	}
}
