// Package s3test starts S3 servers for tests.
package s3test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

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

// KeepVersions has a bucket keep the versions of its objects, and what is deleted.
func (s *Server) KeepVersions(t testing.TB, bucket string) {
	t.Helper()
	api := awss3.New(awss3.Options{Region: "us-east-1", BaseEndpoint: aws.String(s.URL()), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, "")})
	_, err := api.PutBucketVersioning(context.Background(), &awss3.PutBucketVersioningInput{Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
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
