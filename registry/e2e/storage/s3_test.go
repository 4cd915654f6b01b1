package storage

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

func startPeerOnS3(t testing.TB, tool, endpoint string) *harness.Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	config := harness.WriteS3Config(t, addr, endpoint)
	if tool == "docker-registry" { // which knows no redirect section without its own driver's keys
		rewrite(t, config, "forcepathstyle: true, ", "")
	}
	cmd := exec.CommandContext(context.Background(), programtest.Tool(t, tool), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	return harness.Start(t, addr, cmd)
}

func rewrite(t testing.TB, path, old, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), old, text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A bucket goes to distribution and back, while both serve it.
func TestS3_ExchangeWithDistribution(t *testing.T) {
	exchange(t, s3test.VersityGW, harness.Distribution2)
}

func exchange(t *testing.T, start s3test.Start, peers ...harness.Peer) {
	server, _ := harness.S3Bucket(t, start)
	ours := harness.StartOnS3(t, server.URL()).Addr
	for i, peer := range peers {
		t.Run(peer.Name, func(t *testing.T) {
			harness.Exchange(t, ours, startPeerOnS3(t, peer.Tool, server.URL()).Addr, fmt.Sprint("exchange", i), uint64(11+10*i))
		})
	}
}

// patch sends a chunk to an upload, whatever replica began it, and returns where it goes on.
func patch(t *testing.T, addr, location, content string) string {
	t.Helper()
	resp, body := harness.Fetch(t, "PATCH", location, http.Header{"Content-Type": {"application/octet-stream"}}, strings.NewReader(content))
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("PATCH: %s %s", resp.Status, body)
	}
	return harness.AbsoluteURL(t, addr, resp.Header.Get("Location"))
}

// An upload goes on at another replica behind the last chunk that was answered, also when the
// first one is killed.
func TestS3_UploadSurvivesItsReplica(t *testing.T) { uploadSurvives(t, s3test.VersityGW) }

func uploadSurvives(t *testing.T, start s3test.Start) {
	server, _ := harness.S3Bucket(t, start)
	first, second := harness.StartOnS3(t, server.URL()), harness.StartOnS3(t, server.URL())
	for name, chunks := range map[string][]string{
		"small":  {"one ", "two ", "three"},
		"large":  {strings.Repeat("0123456789abcdef", 6<<16), "little", strings.Repeat("fedcba9876543210", 5<<16)},
		"middle": {strings.Repeat("x", 200_000), strings.Repeat("y", 300_000)},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := harness.Fetch(t, "POST", "http://"+first.Addr+"/v2/moved/blobs/uploads/", nil, nil)
			if resp.StatusCode != http.StatusAccepted {
				t.Fatalf("POST: %s %s", resp.Status, body)
			}
			at, addr := harness.AbsoluteURL(t, first.Addr, resp.Header.Get("Location")), first.Addr
			for i, chunk := range chunks {
				next := []string{first.Addr, second.Addr}[i%2]
				at, addr = patch(t, next, strings.Replace(at, addr, next, 1), chunk), next
			}
			content := strings.Join(chunks, "")
			end := harness.WithQuery(t, strings.Replace(at, addr, second.Addr, 1), "digest", harness.DigestOf([]byte(content)))
			if resp, body := harness.Fetch(t, "PUT", end, nil, nil); resp.StatusCode != http.StatusCreated {
				t.Fatalf("PUT: %s %s", resp.Status, body)
			}
			if resp, got := harness.Fetch(t, "GET", "http://"+first.Addr+"/v2/moved/blobs/"+harness.DigestOf([]byte(content)), nil, nil); resp.StatusCode != 200 || string(got) != content {
				t.Errorf("GET: %s, %d bytes, want %d", resp.Status, len(got), len(content))
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		resp, _ := harness.Fetch(t, "POST", "http://"+first.Addr+"/v2/moved/blobs/uploads/", nil, nil)
		at := patch(t, first.Addr, harness.AbsoluteURL(t, first.Addr, resp.Header.Get("Location")), "before ")
		first.Kill()
		at = patch(t, second.Addr, strings.Replace(at, first.Addr, second.Addr, 1), "after")
		end := harness.WithQuery(t, at, "digest", harness.DigestOf([]byte("before after")))
		if resp, body := harness.Fetch(t, "PUT", end, nil, nil); resp.StatusCode != http.StatusCreated {
			t.Fatalf("PUT: %s %s", resp.Status, body)
		}
	})
}

// While the bucket cannot be reached, requests are answered with 503 and Retry-After within
// a bound, and afterwards everything goes on by itself.
func TestS3_BucketAway(t *testing.T) {
	t.Parallel() // it waits most of its time
	bucketAway(t, s3test.VersityGW)
}

func bucketAway(t *testing.T, start s3test.Start) {
	server, _ := harness.S3Bucket(t, start)
	front := harness.NewTunnel(t, server.Addr)
	replica := harness.StartOnS3(t, "http://"+front.Addr, "health: {storagedriver: {enabled: false}}\n")
	img := harness.NewImage(t, 51, 1, 10_000)
	img.Push(t, replica.Addr, "app", "v1")
	front.Cut()
	begun := time.Now()
	resp, body := harness.Fetch(t, "GET", "http://"+replica.Addr+"/v2/app/manifests/v1", harness.AcceptAll, nil)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("without the bucket: %s %s, Retry-After %q", resp.Status, body, resp.Header.Get("Retry-After"))
	}
	if d := time.Since(begun); d > time.Minute {
		t.Errorf("it took %v to say so", d)
	}
	front.Restore()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if resp, _ := harness.Fetch(t, "GET", "http://"+replica.Addr+"/v2/app/manifests/v1", harness.AcceptAll, nil); resp.StatusCode == http.StatusOK {
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("a minute later: %s", resp.Status)
		}
	}
	img.Pulls(t, replica.Addr, "app", "v1")
	harness.NewImage(t, 52, 1, 10_000).Push(t, replica.Addr, "app", "v2")
}
