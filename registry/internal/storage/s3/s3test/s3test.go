// Package s3test starts S3 servers for tests.
package s3test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"slipway/registry/internal/storage/s3"
	"slipway/shared/programtest"
)

// Keys of the servers.
const (
	AccessKey = "slipwaytest"
	SecretKey = "slipwaytestsecret" //nolint:gosec // of a server that a test starts
)

// Server is one that runs until the test ends.
type Server struct {
	*programtest.Process
	Addr string
}

// URL is the endpoint.
func (s *Server) URL() string { return "http://" + s.Addr }

// Start starts a server that keeps its objects in a directory.
type Start func(t testing.TB, dir string) *Server

// MinIO starts a MinIO. It is only for tests of `make test-full`.
func MinIO(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{Addr: programtest.FreeAddr(t)}
	cmd := exec.CommandContext(context.Background(), programtest.Tool(t, "minio"), "server", "--quiet", "--address", s.Addr, "--console-address", programtest.FreeAddr(t), dir)
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	s.Process = programtest.Start(t, cmd, s.URL()+"/minio/health/live")
	return s
}

// VersityGW starts a versitygw, which keeps objects as files.
func VersityGW(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{Addr: programtest.FreeAddr(t)}
	cmd := exec.CommandContext(context.Background(), programtest.Tool(t, "versitygw"), "--access", AccessKey, "--secret", SecretKey, "--port", s.Addr, "posix", dir)
	s.Process = programtest.Start(t, cmd, s.URL())
	return s
}

// Config is that of a bucket on the server, at an endpoint if it is another.
func (s *Server) Config(bucket string) s3.Config {
	return s3.Config{AccessKey: AccessKey, SecretKey: SecretKey, Region: "us-east-1", Endpoint: s.URL(), Bucket: bucket, PathStyle: true}
}

// Bucket makes a bucket and opens it. It waits for a server that is not ready yet.
func (s *Server) Bucket(t testing.TB, bucket string) *s3.Bucket {
	t.Helper()
	var err error
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		if err = s3.Create(context.Background(), s.Config(bucket)); err != nil {
			continue
		}
		var b *s3.Bucket
		if b, err = s3.Open(context.Background(), s.Config(bucket)); err == nil {
			t.Cleanup(func() { _ = b.Close() })
			return b
		}
	}
	t.Fatalf("bucket %s: %v", bucket, err)
	return nil
}
