package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage/azure"
	"slipway/registry/internal/storage/gcs"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// storeCounter passes requests on to an object store and counts them.
type storeCounter struct {
	*httptest.Server
	all  bool // those by which replicas agree, too
	mu   sync.Mutex
	seen []string
}

func newStoreCounter(t *testing.T, to string) *storeCounter {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	c := &storeCounter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Path + r.URL.Query().Get("prefix")
		if strings.HasPrefix(r.URL.Path, "/upload/") { // the name of the object is in the body
			body := bufio.NewReaderSize(r.Body, 4096)
			begin, _ := body.Peek(min(4096, int(r.ContentLength)))
			at += string(begin)
			r.Body = struct {
				io.Reader
				io.Closer
			}{body, r.Body}
		}
		if c.all || !strings.Contains(at, "/.slipway/") {
			path := r.URL.Path
			if _, below, ok := strings.Cut(path, "/docker/registry/v2/"); ok {
				path = below
			}
			c.mu.Lock()
			c.seen = append(c.seen, fmt.Sprintf("%s %s?%s", r.Method, path, r.URL.RawQuery))
			c.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// during returns the requests that f causes.
func (c *storeCounter) during(f func()) []string {
	c.mu.Lock()
	c.seen = nil
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// await waits until a request has come for which is says true.
func (c *storeCounter) await(t *testing.T, what string, is func(request string) bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		come := slices.ContainsFunc(c.seen, is)
		c.mu.Unlock()
		if come {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// manyTags writes tags that point at a manifest.
func manyTags(t *testing.T, bucket object.Bucket, root, repo, manifest string, n int) {
	t.Helper()
	_, hex, _ := strings.Cut(manifest, ":")
	var all sync.WaitGroup
	free := make(chan struct{}, 16)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			for _, name := range []string{"current/link", "index/sha256/" + hex + "/link"} {
				key := fmt.Sprintf("%s/docker/registry/v2/repositories/%s/_manifests/tags/tag%04d/%s", root, repo, i, name)
				if _, err := bucket.Put(t.Context(), key, object.Body{Content: strings.NewReader(manifest), Size: int64(len(manifest))}, object.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// countedStore is an object store whose requests are counted.
type countedStore struct {
	*storeCounter
	bucket object.Bucket
	root   string // of all keys
	start  func(env ...string) *process
}

// uncounted are what sends requests by itself.
var uncounted = []string{"REGISTRY_HEALTH_STORAGEDRIVER_ENABLED=false", "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}

func countedS3(t *testing.T, server *s3test.Server) *countedStore {
	t.Helper()
	bucket := server.Bucket(t, "images")
	c := newStoreCounter(t, server.URL())
	return &countedStore{c, bucket, "some/root", func(env ...string) *process {
		return startOnS3(t, c.URL, "", append(uncounted, env...)...)
	}}
}

func countedAzure(t *testing.T) *countedStore {
	t.Helper()
	at, err := url.Parse(startAzurite(t))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := azure.New(azure.Options{Account: azureAccount, Key: azureKey, ServiceURL: at.String(), Container: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bucket.Close() })
	c := newStoreCounter(t, "http://"+at.Host)
	return &countedStore{c, bucket, "some/where", func(env ...string) *process {
		return startOnStore(t, slices.Concat(azureEnv(c.URL+at.Path), uncounted, []string{"REGISTRY_STORAGE_REDIRECT_DISABLE=true"}, env)...)
	}}
}

func countedGCS(t *testing.T) *countedStore {
	t.Helper()
	addr := startGCS(t)
	c := newStoreCounter(t, "http://"+addr)
	bucket, err := gcs.New(gcs.Options{Endpoint: "http://" + addr, Bucket: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bucket.Close() })
	return &countedStore{c, bucket, "some/where", func(env ...string) *process {
		return startOnStore(t, slices.Concat(gcsEnv(strings.TrimPrefix(c.URL, "http://")), uncounted, env)...)
	}}
}

// perOperation is how many requests each operation may cost.
type perOperation map[string]int

// How many requests to the store each operation costs, which no change may raise unseen. What
// replicas agree by is not counted. docs/explanation/object-store-requests.md has the table.
func TestS3_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	for shared, most := range map[string]perOperation{
		// A manifest in memory is looked for again after a second: one more than is usual.
		"false": {"push in chunks": 4, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 4, "10 chunks of 1 MiB": 4, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "upload status": 1, "upload cancelled": 1},
		"true":  {"push in chunks": 6, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 9, "10 chunks of 1 MiB": 37, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "1,000 tags": 5, "1,000 tags again": 2, "manifest DELETE among 1,201 tags": 6, "upload status": 2, "upload cancelled": 4},
	} {
		t.Run("shared "+shared, func(t *testing.T) {
			countRequests(t, countedS3(t, s3test.MinIO(t, t.TempDir())), shared, most)
		})
	}
	// This one honours conditions on DELETE, and cannot renew a manifest without its bytes.
	t.Run("versitygw", func(t *testing.T) {
		countRequests(t, countedS3(t, s3test.VersityGW(t, t.TempDir())), "true", perOperation{
			"push in chunks": 6, "push of 64 MiB": 9, "10 chunks of 1 MiB": 37, "tag DELETE": 4, "manifest DELETE among 1,201 tags": 6, "upload cancelled": 4,
		})
	})
}

func TestAzure_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	// Azurite lists from the beginning of a prefix whatever it is asked for.
	for shared, most := range map[string]perOperation{
		"false": {"push in chunks": 4, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 4, "10 chunks of 1 MiB": 4, "blob HEAD": 2, "blob GET": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "upload status": 1, "upload cancelled": 1},
		"true":  {"push in chunks": 6, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 24, "10 chunks of 1 MiB": 38, "blob HEAD": 2, "blob GET": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "1,000 tags": 6, "1,000 tags again": 2, "manifest DELETE among 1,201 tags": 3, "upload status": 2, "upload cancelled": 3},
	} {
		t.Run("shared "+shared, func(t *testing.T) { countRequests(t, countedAzure(t), shared, most) })
	}
}

func TestGCS_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	for shared, most := range map[string]perOperation{
		"false": {"push in chunks": 4, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 4, "10 chunks of 1 MiB": 4, "blob HEAD": 2, "blob GET": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "upload status": 1, "upload cancelled": 1},
		"true":  {"push in chunks": 6, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 7, "10 chunks of 1 MiB": 34, "blob HEAD": 2, "blob GET": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 3, "blob DELETE": 2, "1,000 tags": 5, "1,000 tags again": 2, "manifest DELETE among 1,201 tags": 4, "upload status": 2, "upload cancelled": 4},
	} {
		t.Run("shared "+shared, func(t *testing.T) { countRequests(t, countedGCS(t), shared, most) })
	}
}

// countRequests fails the test where an operation that most has costs more.
func countRequests(t *testing.T, c *countedStore, shared string, most perOperation) {
	t.Helper()
	mode := "REGISTRY_SLIPWAY_OBJECTSTORE_SHARED=" + shared
	replica := c.start(mode)
	at := "http://" + replica.addr + "/v2/"
	compare := func(name string, got []string) {
		t.Helper()
		limit, counted := most[name]
		t.Logf("%-32s %2d of at most %2d", name, len(got), limit)
		if counted && len(got) > limit {
			t.Errorf("%s costs %d requests, at most %d:\n%s", name, len(got), limit, strings.Join(got, "\n"))
		}
	}
	count := func(name string, f func()) {
		t.Helper()
		compare(name, c.during(f))
	}
	repo := "count" + shared
	img := newImage(t, 61, 3, 4096)
	pushBlob(t, replica.addr, repo, digestOf([]byte("first")), []byte("first")) // registers the replica
	content := strings.Repeat(shared, 1000)
	begin := func() string {
		resp, body := fetch(t, "POST", at+repo+"/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("POST: %s %s", resp.Status, body)
		}
		return absolute(t, replica.addr, resp.Header.Get("Location"))
	}
	pushChunks := func(chunks ...string) func() {
		digest := digestOf([]byte(strings.Join(chunks, "")))
		return func() {
			next := begin()
			for _, chunk := range chunks {
				next = patch(t, replica.addr, next, chunk)
			}
			if resp, body := fetch(t, "PUT", withQuery(t, next, "digest", digest), nil, nil); resp.StatusCode != http.StatusCreated {
				t.Fatalf("PUT: %s %s", resp.Status, body)
			}
		}
	}
	count("push in chunks", pushChunks(content))
	count("push of 64 MiB", pushChunks(strings.Repeat("0123456789abcdef", 4<<20)))
	count("10 chunks of 1 MiB", pushChunks(slices.Repeat([]string{strings.Repeat("0123456789abcdef", 1<<16)}, 10)...))
	count("push by one POST", func() {
		if resp, body := fetch(t, "POST", withQuery(t, at+repo+"/blobs/uploads/", "digest", digestOf([]byte("one"))), nil, strings.NewReader("one")); resp.StatusCode != http.StatusCreated {
			t.Fatalf("POST: %s %s", resp.Status, body)
		}
	})
	upload := begin()
	upload = patch(t, replica.addr, upload, "some")
	count("upload status", func() { fetch(t, "GET", upload, nil, nil) })
	count("upload cancelled", func() {
		if resp, body := fetch(t, "DELETE", upload, nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE: %s %s", resp.Status, body)
		}
	})
	count("push at once", func() { pushBlob(t, replica.addr, repo, digestOf([]byte("x"+shared)), []byte("x"+shared)) })
	get := func(method, path string, want int) func() {
		return func() {
			if resp, body := fetch(t, method, at+repo+path, acceptAll, nil); resp.StatusCode != want {
				t.Fatalf("%s %s: %s %s", method, path, resp.Status, body)
			}
		}
	}
	count("blob HEAD", get("HEAD", "/blobs/"+digestOf([]byte(content)), 200))
	count("blob GET", get("GET", "/blobs/"+digestOf([]byte(content)), 200))
	if _, redirects := most["blob GET redirected"]; redirects {
		p := c.start(mode, redirected)
		pushBlob(t, p.addr, repo, digestOf([]byte("first")), []byte("first")) // registers it
		count("blob GET redirected", func() {
			resp := fetchOnce(t, "http://"+p.addr+"/v2/"+repo+"/blobs/"+digestOf([]byte(content)), nil)
			if resp.StatusCode != http.StatusTemporaryRedirect {
				t.Fatalf("GET: %s", resp.Status)
			}
		})
	}
	for d, b := range img.blobs {
		if d != img.manifest {
			pushBlob(t, replica.addr, repo, d, b)
		}
	}
	count("manifest PUT", func() { pushManifest(t, replica.addr, repo, "v1", img.blobs[img.manifest]) })
	count("manifest PUT again", func() { pushManifest(t, replica.addr, repo, "v1", img.blobs[img.manifest]) })
	other := c.start(mode)
	at = "http://" + other.addr + "/v2/"
	get("GET", "/tags/list", 200)() // registers the other replica
	count("manifest by tag, cold", get("GET", "/manifests/v1", 200))
	count("manifest by tag", get("GET", "/manifests/v1", 200))
	count("manifest by digest", get("GET", "/manifests/"+img.manifest, 200))
	count("tags", get("GET", "/tags/list", 200))
	count("mount", func() {
		if resp, body := fetch(t, "POST", at+repo+"-to/blobs/uploads/?from="+repo+"&mount="+digestOf([]byte(content)), nil, nil); resp.StatusCode != http.StatusCreated {
			t.Fatalf("mount: %s %s", resp.Status, body)
		}
	})
	count("catalog of 2", func() { fetch(t, "GET", "http://"+other.addr+"/v2/_catalog", nil, nil) })
	pushManifest(t, other.addr, repo, "gone", img.blobs[img.manifest])
	count("tag DELETE", get("DELETE", "/manifests/gone", 202))
	count("blob DELETE", get("DELETE", "/blobs/"+digestOf([]byte(content)), 202))
	if _, counted := most["manifest DELETE among 1,201 tags"]; !counted {
		return // it takes time to write so many
	}
	manyTags(t, c.bucket, c.root, repo, img.manifest, 1200)
	count("1,000 tags", get("GET", "/tags/list?n=1000", 200))
	count("1,000 tags again", get("GET", "/tags/list?n=1000", 200))
	// Replicas remember for some seconds which manifests were pushed. A deletion that takes longer, on a
	// machine that is busy, lists the tags again, so it is another one that is counted.
	for try := range uint64(20) {
		last := newImage(t, 62+try, 1, 1024)
		last.push(t, other.addr, repo, "last")
		begun := time.Now()
		got := c.during(get("DELETE", "/manifests/"+last.manifest, 202))
		if took := time.Since(begun); took < 4*time.Second || try == 19 {
			compare("manifest DELETE among 1,201 tags", got)
			break
		}
	}
}

// A replica that nobody uses sends next to nothing: the health check's listing every ten
// seconds, three requests a minute of the one for writing, and one for its membership every two and
// a half minutes.
func TestS3_IdleReplica_SendsNextToNothing(t *testing.T) {
	t.Parallel()
	server := s3test.MinIO(t, t.TempDir())
	server.Bucket(t, "images")
	c := newStoreCounter(t, server.URL())
	c.all = true
	addr := programtest.FreeAddr(t)
	cmd := exec.CommandContext(t.Context(), binary, "serve", onS3(t, addr, c.URL, ""))
	cmd.Env = []string{ // the purge, once a day, may begin in the time that is looked at
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false",
	}
	replica := start(t, addr, cmd)
	c.during(func() { newImage(t, 1, 2, 1000).push(t, replica.addr, "idle", "v1") })
	c.await(t, "it has left those who write", func(r string) bool {
		return strings.HasPrefix(r, "DELETE ") && strings.Contains(r, "/.slipway/writers/")
	})
	const span = 20 * time.Second
	got := c.during(func() { time.Sleep(span) })
	other := slices.DeleteFunc(slices.Clone(got), func(r string) bool {
		return strings.Contains(r, "max-keys=1&") || strings.Contains(r, "/.slipway/check/") // the health checks'
	})
	if len(got) > 7 || len(other) > 1 {
		t.Errorf("%d requests in %v, %d of them not for the health checks:\n%s", len(got), span, len(other), strings.Join(got, "\n"))
	}
}
