package storage

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// A garbage collection on a bucket that no registry serves doesn't wait for requests that are in progress. After a
// registry was killed it does, and says so.
func TestS3_CollectionWithoutServers(t *testing.T) {
	t.Parallel()
	collectWithoutServers(t, s3test.VersityGW)
}

func collectWithoutServers(t *testing.T, start s3test.Start) {
	server, bucket := harness.S3Bucket(t, start)
	config := harness.WriteS3Config(t, "127.0.0.1:0", server.URL())
	img := harness.NewImage(t, 71, 2, 1000)
	push := func() *harness.Process {
		p := harness.StartOnS3(t, server.URL())
		img.Push(t, p.Addr, "app", "v1")
		harness.DeleteReference(t, p.Addr, "app", img.Manifest)
		return p
	}
	if err := push().Stop(t); err != nil {
		t.Fatalf("the registry ended with %v", err)
	}
	out, code := harness.Run(t, nil, "garbage-collect", "-m", "--age", "0", "--json", config)
	var report struct {
		Duration time.Duration `json:"durationNanoseconds"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if report.Duration > time.Minute { // four seconds, on a machine that isn't busy
		t.Errorf("it took %v", report.Duration)
	}
	for d := range img.Blobs {
		if harness.InBucket(t, bucket, d) {
			t.Errorf("%s is still in the bucket", d)
		}
	}

	push().Kill()
	var lines programtest.Output
	cmd := exec.CommandContext(context.Background(), harness.Binary, "garbage-collect", "-m", "--age", "0", config)
	cmd.Stderr = &lines
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	for end := time.Now().Add(time.Minute); !strings.Contains(lines.String(), "waiting, usually two minutes"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it says %q", lines.String())
		}
	}
	if !harness.InBucket(t, bucket, img.Manifest) {
		t.Error("it deletes before it has waited")
	}
}
