package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// minioBucket starts a MinIO with an empty bucket.
func minioBucket(t testing.TB) (*s3test.Server, *s3.Bucket) {
	t.Helper()
	server := s3test.MinIO(t, t.TempDir())
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

// onS3 writes a configuration with the bucket at the endpoint. What more says comes at its end.
func onS3(t testing.TB, addr, endpoint, more string) string {
	t.Helper()
	text := strings.NewReplacer("%ENDPOINT%", endpoint, "%ADDR%", addr, "%ACCESS%", s3test.AccessKey, "%SECRET%", s3test.SecretKey).Replace(s3Config)
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(text+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startOnS3 starts a replica. The environment comes on top of the file.
func startOnS3(t testing.TB, endpoint, more string, env ...string) *process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	cmd := exec.CommandContext(context.Background(), binary, "serve", onS3(t, addr, endpoint, more))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}
	cmd.Env = append(cmd.Env, env...)
	return start(t, addr, cmd)
}

func startPeerOnS3(t testing.TB, tool, endpoint string) *process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	config := onS3(t, addr, endpoint, "")
	if tool == "docker-registry" { // which knows no redirect section without its own driver's keys
		rewrite(t, config, "forcepathstyle: true, ", "")
	}
	cmd := exec.CommandContext(context.Background(), programtest.Tool(t, tool), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	return start(t, addr, cmd)
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
	server, _ := minioBucket(t)
	ours := startOnS3(t, server.URL(), "").addr
	for i, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			theirs := startPeerOnS3(t, peer.tool, server.URL()).addr
			img := newImage(t, uint64(11+10*i), 3, 50_000)
			idx := newIndex(t, newImage(t, uint64(12+10*i), 2, 10_000), newImage(t, uint64(13+10*i), 1, 10_000))
			for way, addrs := range map[string][2]string{"ours to theirs": {ours, theirs}, "theirs to ours": {theirs, ours}} {
				from, to := addrs[0], addrs[1]
				repo := fmt.Sprintf("exchange%d/%s", i, strings.ReplaceAll(way, " ", "-"))
				img.push(t, from, repo, "image")
				idx.push(t, from, repo, "index")
				img.pulls(t, to, repo, "image")
				idx.pulls(t, to, repo, "index")
				if got := listTags(t, to, repo); got != "image index" {
					t.Errorf("%s: tags = %q, want both", way, got)
				}
				if _, body := fetch(t, "GET", "http://"+to+"/v2/_catalog", nil, nil); !strings.Contains(string(body), `"`+repo+`"`) {
					t.Errorf("%s: catalog lacks %s: %s", way, repo, body)
				}
				// A retag and a deletion on one side are seen on the other.
				pushManifest(t, from, repo, "image", idx.blobs[idx.manifest])
				idx.pulls(t, to, repo, "image")
				if resp, body := fetch(t, "DELETE", "http://"+from+"/v2/"+repo+"/manifests/"+idx.manifest, nil, nil); resp.StatusCode != http.StatusAccepted {
					t.Fatalf("%s: DELETE: %s %s", way, resp.Status, body)
				}
				if resp, _ := fetch(t, "GET", "http://"+to+"/v2/"+repo+"/manifests/index", acceptAll, nil); resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: GET of a tag whose manifest was deleted: %s, want 404", way, resp.Status)
				}
			}
		})
	}
}

// patch sends a chunk to an upload, whatever replica began it, and returns where it goes on.
func patch(t *testing.T, addr, location, content string) string {
	t.Helper()
	resp, body := fetch(t, "PATCH", location, http.Header{"Content-Type": {"application/octet-stream"}}, strings.NewReader(content))
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("PATCH: %s %s", resp.Status, body)
	}
	return absolute(t, addr, resp.Header.Get("Location"))
}

// An upload goes on at another replica behind the last chunk that was answered, also when the
// first one is killed.
func TestS3_UploadSurvivesItsReplica(t *testing.T) {
	server, _ := minioBucket(t)
	first, second := startOnS3(t, server.URL(), ""), startOnS3(t, server.URL(), "")
	for name, chunks := range map[string][]string{
		"small":  {"one ", "two ", "three"},
		"large":  {strings.Repeat("0123456789abcdef", 6<<16), "little", strings.Repeat("fedcba9876543210", 5<<16)},
		"middle": {strings.Repeat("x", 200_000), strings.Repeat("y", 300_000)},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := fetch(t, "POST", "http://"+first.addr+"/v2/moved/blobs/uploads/", nil, nil)
			if resp.StatusCode != http.StatusAccepted {
				t.Fatalf("POST: %s %s", resp.Status, body)
			}
			at, addr := absolute(t, first.addr, resp.Header.Get("Location")), first.addr
			for i, chunk := range chunks {
				next := []string{first.addr, second.addr}[i%2]
				at, addr = patch(t, next, strings.Replace(at, addr, next, 1), chunk), next
			}
			content := strings.Join(chunks, "")
			end := withQuery(t, strings.Replace(at, addr, second.addr, 1), "digest", digestOf([]byte(content)))
			if resp, body := fetch(t, "PUT", end, nil, nil); resp.StatusCode != http.StatusCreated {
				t.Fatalf("PUT: %s %s", resp.Status, body)
			}
			if resp, got := fetch(t, "GET", "http://"+first.addr+"/v2/moved/blobs/"+digestOf([]byte(content)), nil, nil); resp.StatusCode != 200 || string(got) != content {
				t.Errorf("GET: %s, %d bytes, want %d", resp.Status, len(got), len(content))
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		resp, _ := fetch(t, "POST", "http://"+first.addr+"/v2/moved/blobs/uploads/", nil, nil)
		at := patch(t, first.addr, absolute(t, first.addr, resp.Header.Get("Location")), "before ")
		first.Kill()
		at = patch(t, second.addr, strings.Replace(at, first.addr, second.addr, 1), "after")
		end := withQuery(t, at, "digest", digestOf([]byte("before after")))
		if resp, body := fetch(t, "PUT", end, nil, nil); resp.StatusCode != http.StatusCreated {
			t.Fatalf("PUT: %s %s", resp.Status, body)
		}
	})
}

// The registry's commands and clients work through two replicas, one of which stops; what a deleted
// image held is freed beside the other.
func TestS3_TwoReplicas(t *testing.T) {
	server, bucket := minioBucket(t)
	first, second := startOnS3(t, server.URL(), ""), startOnS3(t, server.URL(), "")
	img, other := newImage(t, 41, 3, 40_000), newImage(t, 42, 2, 40_000)
	runTool(t, "crane", "push", img.layout(t, "v1"), first.addr+"/app:v1")
	out := t.TempDir()
	runTool(t, "crane", "pull", "--format=oci", second.addr+"/app:v1", out)
	img.sameLayout(t, out)
	other.push(t, second.addr, "app", "v2")
	other.pulls(t, first.addr, "app", "v2")
	if err := first.stop(t); err != nil {
		t.Errorf("the first replica ended with %v", err)
	}
	third := newImage(t, 43, 1, 10_000)
	third.push(t, second.addr, "app", "v3")
	if got := listTags(t, second.addr, "app"); got != "v1 v2 v3" {
		t.Errorf("tags = %q", got)
	}
	if resp, body := fetch(t, "DELETE", "http://"+second.addr+"/v2/app/manifests/"+img.manifest, nil, nil); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("DELETE: %s %s", resp.Status, body)
	}
	cmd := exec.CommandContext(t.Context(), binary, "garbage-collect", onS3(t, "127.0.0.1:0", server.URL(), ""), "--age", "0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	report, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("garbage-collect: %v\n%s", err, report)
	}
	list := exec.CommandContext(t.Context(), binary, "uploads", "list", onS3(t, "127.0.0.1:0", server.URL(), ""))
	list.Env = cmd.Env
	if out, err := list.CombinedOutput(); err != nil || string(out) != "there are no unfinished uploads\n" {
		t.Errorf("uploads list: %v\n%s", err, out)
	}
	for d := range img.blobs {
		if there := inBucket(t, bucket, d); there {
			t.Errorf("%s is still there\n%s", d, report)
		}
	}
	other.pulls(t, second.addr, "app", "v2")
	third.pulls(t, second.addr, "app", "v3")
	if resp, _ := fetch(t, "GET", "http://"+second.addr+"/v2/app/manifests/v1", acceptAll, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the deleted tag: %s", resp.Status)
	}
	if err := second.stop(t); err != nil {
		t.Errorf("the replica ended with %v", err)
	}
}

// inBucket says whether the bytes of a blob lie in the bucket.
func inBucket(t testing.TB, b object.Bucket, digest string) bool {
	t.Helper()
	hex := strings.TrimPrefix(digest, "sha256:")
	page, err := b.List(t.Context(), "some/root/docker/registry/v2/blobs/sha256/"+hex[:2]+"/"+hex, object.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Entries) > 0
}

// While the bucket cannot be reached, requests are answered with 503 and Retry-After within
// a bound, and afterwards everything goes on by itself.
func TestS3_BucketAway(t *testing.T) {
	t.Parallel() // it waits most of its time
	server, _ := minioBucket(t)
	front := newRelay(t, server.Addr)
	replica := startOnS3(t, "http://"+front.addr, "health: {storagedriver: {enabled: false}}\n")
	img := newImage(t, 51, 1, 10_000)
	img.push(t, replica.addr, "app", "v1")
	front.cut(true)
	begun := time.Now()
	resp, body := fetch(t, "GET", "http://"+replica.addr+"/v2/app/manifests/v1", acceptAll, nil)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("without the bucket: %s %s, Retry-After %q", resp.Status, body, resp.Header.Get("Retry-After"))
	}
	if d := time.Since(begun); d > time.Minute {
		t.Errorf("it took %v to say so", d)
	}
	front.cut(false)
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if resp, _ := fetch(t, "GET", "http://"+replica.addr+"/v2/app/manifests/v1", acceptAll, nil); resp.StatusCode == http.StatusOK {
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("a minute later: %s", resp.Status)
		}
	}
	img.pulls(t, replica.addr, "app", "v1")
	newImage(t, 52, 1, 10_000).push(t, replica.addr, "app", "v2")
}
