package storage

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/azure"
	"slipway/registry/internal/storage/gcs"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3/s3test"
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

	redirects bool // to the store
	start     func(env ...string) *harness.Process
}

// uncounted are the components that send requests by themselves.
var uncounted = []string{"REGISTRY_HEALTH_STORAGEDRIVER_ENABLED=false", "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}

func countedS3(t *testing.T, server *s3test.Server) *countedStore {
	t.Helper()
	bucket := server.Bucket(t, "images")
	c := newStoreCounter(t, server.URL())
	return &countedStore{c, bucket, "some/root", true, func(env ...string) *harness.Process {
		return harness.StartOnS3(t, c.URL, append(uncounted, env...)...)
	}}
}

func countedAzure(t *testing.T) *countedStore {
	t.Helper()
	at, err := url.Parse(harness.StartAzurite(t))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := azure.New(azure.Options{Account: harness.AzureAccount, Key: harness.AzureKey, ServiceURL: at.String(), Container: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bucket.Close() })
	c := newStoreCounter(t, "http://"+at.Host)
	return &countedStore{c, bucket, "some/where", false, func(env ...string) *harness.Process {
		return harness.StartOnStore(t, slices.Concat(harness.AzureEnv(c.URL+at.Path), uncounted, []string{"REGISTRY_STORAGE_REDIRECT_DISABLE=true"}, env)...)
	}}
}

func countedGCS(t *testing.T) *countedStore {
	t.Helper()
	addr := harness.StartGCS(t)
	c := newStoreCounter(t, "http://"+addr)
	bucket, err := gcs.New(gcs.Options{Endpoint: "http://" + addr, Bucket: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bucket.Close() })
	return &countedStore{c, bucket, "some/where", false, func(env ...string) *harness.Process {
		return harness.StartOnStore(t, slices.Concat(harness.GCSEnv(strings.TrimPrefix(c.URL, "http://")), uncounted, env)...)
	}}
}

// perOperation is the number of requests that each operation may cost.
type perOperation map[string]int

// everywhere bounds the requests of each operation on every store. A manifest in memory is looked for again
// after a second: one more than is usual.
var everywhere = perOperation{
	"push in chunks": 8, "push at once": 4, "push by one POST": 2, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 4, "manifest PUT": 15, "manifest PUT again": 15, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2,
	"tags": 1, "catalog of 2": 3, "tag DELETE": 4, "blob DELETE": 2, "1,000 tags again": 2, "upload status": 2, "upload cancelled": 5,
}

// How many requests to the store each operation costs, which no change may raise unseen. What
// replicas agree by is not counted. docs/explanation/object-store-requests.md has the table.
func TestS3_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	// It honors conditions on DELETE, and renews a small object by writing it again. MinIO does neither.
	requestsPerOperation(t, s3test.VersityGW)
}

func requestsPerOperation(t *testing.T, start s3test.Start) {
	countRequests(t, countedS3(t, start(t, t.TempDir())), perOperation{"push of 64 MiB": 13, "10 chunks of 1 MiB": 57, "1,000 tags": 2, "manifest DELETE among 1,201 tags": 9})
}

func TestAzure_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	// Azurite lists from the beginning of a prefix whatever it is asked for.
	countRequests(t, countedAzure(t), perOperation{"push of 64 MiB": 28, "10 chunks of 1 MiB": 59, "1,000 tags": 2, "manifest DELETE among 1,201 tags": 6})
}

func TestGCS_RequestsPerOperation(t *testing.T) {
	t.Parallel()
	countRequests(t, countedGCS(t), perOperation{"push of 64 MiB": 11, "10 chunks of 1 MiB": 55, "1,000 tags": 2, "manifest DELETE among 1,201 tags": 7})
}

// countRequests fails the test where an operation that most has costs more.
func countRequests(t *testing.T, c *countedStore, most perOperation) {
	t.Helper()
	replica := c.start()
	at := "http://" + replica.Addr + "/v2/"
	compare := func(name string, got []string) {
		t.Helper()
		limit, counted := most[name]
		if !counted {
			limit, counted = everywhere[name]
		}
		t.Logf("%-32s %2d of at most %2d", name, len(got), limit)
		if counted && len(got) > limit {
			t.Errorf("%s costs %d requests, at most %d:\n%s", name, len(got), limit, strings.Join(got, "\n"))
		}
	}
	count := func(name string, f func()) {
		t.Helper()
		compare(name, c.during(f))
	}
	repo := "count"
	img := harness.NewImage(t, 61, 3, 4096)
	other := c.start()
	for i, p := range []*harness.Process{replica, other} { // takes their leases
		first := []byte(fmt.Sprint("first ", i))
		harness.PushBlob(t, p.Addr, repo, harness.DigestOf(first), first)
	}
	content := strings.Repeat("true", 1000)
	begin := func() string {
		resp, body := harness.Fetch(t, "POST", at+repo+"/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("POST: %s %s", resp.Status, body)
		}
		return harness.AbsoluteURL(t, replica.Addr, resp.Header.Get("Location"))
	}
	pushChunks := func(chunks ...string) func() {
		digest := harness.DigestOf([]byte(strings.Join(chunks, "")))
		return func() {
			next := begin()
			for _, chunk := range chunks {
				next = patch(t, replica.Addr, next, chunk)
			}
			if resp, body := harness.Fetch(t, "PUT", harness.WithQuery(t, next, "digest", digest), nil, nil); resp.StatusCode != http.StatusCreated {
				t.Fatalf("PUT: %s %s", resp.Status, body)
			}
		}
	}
	count("push in chunks", pushChunks(content))
	count("push of 64 MiB", pushChunks(strings.Repeat("0123456789abcdef", 4<<20)))
	count("10 chunks of 1 MiB", pushChunks(slices.Repeat([]string{strings.Repeat("0123456789abcdef", 1<<16)}, 10)...))
	count("push by one POST", func() {
		if resp, body := harness.Fetch(t, "POST", harness.WithQuery(t, at+repo+"/blobs/uploads/", "digest", harness.DigestOf([]byte("one"))), nil, strings.NewReader("one")); resp.StatusCode != http.StatusCreated {
			t.Fatalf("POST: %s %s", resp.Status, body)
		}
	})
	upload := begin()
	upload = patch(t, replica.Addr, upload, "some")
	count("upload status", func() { harness.Fetch(t, "GET", upload, nil, nil) })
	count("upload cancelled", func() {
		if resp, body := harness.Fetch(t, "DELETE", upload, nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE: %s %s", resp.Status, body)
		}
	})
	count("push at once", func() { harness.PushBlob(t, replica.Addr, repo, harness.DigestOf([]byte("x")), []byte("x")) })
	get := func(method, path string, want int) func() {
		return func() {
			if resp, body := harness.Fetch(t, method, at+repo+path, harness.AcceptAll, nil); resp.StatusCode != want {
				t.Fatalf("%s %s: %s %s", method, path, resp.Status, body)
			}
		}
	}
	count("blob HEAD", get("HEAD", "/blobs/"+harness.DigestOf([]byte(content)), 200))
	count("blob GET", get("GET", "/blobs/"+harness.DigestOf([]byte(content)), 200))
	if c.redirects {
		p := c.start(redirected)
		harness.PushBlob(t, p.Addr, repo, harness.DigestOf([]byte("first")), []byte("first")) // takes its lease
		count("blob GET redirected", func() {
			resp := fetchOnce(t, "http://"+p.Addr+"/v2/"+repo+"/blobs/"+harness.DigestOf([]byte(content)), nil)
			if resp.StatusCode != http.StatusTemporaryRedirect {
				t.Fatalf("GET: %s", resp.Status)
			}
		})
	}
	for d, b := range img.Blobs {
		if d != img.Manifest {
			harness.PushBlob(t, replica.Addr, repo, d, b)
		}
	}
	count("manifest PUT", func() { harness.PushManifest(t, replica.Addr, repo, "v1", img.Blobs[img.Manifest]) })
	count("manifest PUT again", func() { harness.PushManifest(t, replica.Addr, repo, "v1", img.Blobs[img.Manifest]) })
	at = "http://" + other.Addr + "/v2/"
	count("manifest by tag, cold", get("GET", "/manifests/v1", 200))
	count("manifest by tag", get("GET", "/manifests/v1", 200))
	count("manifest by digest", get("GET", "/manifests/"+img.Manifest, 200))
	count("tags", get("GET", "/tags/list", 200))
	count("mount", func() {
		if resp, body := harness.Fetch(t, "POST", at+repo+"-to/blobs/uploads/?from="+repo+"&mount="+harness.DigestOf([]byte(content)), nil, nil); resp.StatusCode != http.StatusCreated {
			t.Fatalf("mount: %s %s", resp.Status, body)
		}
	})
	count("catalog of 2", func() { harness.Fetch(t, "GET", "http://"+other.Addr+"/v2/_catalog", nil, nil) })
	harness.PushManifest(t, other.Addr, repo, "gone", img.Blobs[img.Manifest])
	count("tag DELETE", get("DELETE", "/manifests/gone", 202))
	count("blob DELETE", get("DELETE", "/blobs/"+harness.DigestOf([]byte(content)), 202))
	manyTags(t, c.bucket, c.root, repo, img.Manifest, 1200)
	count("1,000 tags", get("GET", "/tags/list?n=1000", 200))
	count("1,000 tags again", get("GET", "/tags/list?n=1000", 200))
	// Replicas remember for some seconds which manifests were pushed. A deletion that takes longer, on a
	// machine that is busy, lists the tags again, so it is another one that is counted.
	for try := range uint64(20) {
		last := harness.NewImage(t, 62+try, 1, 1024)
		last.Push(t, other.Addr, repo, "last")
		begun := time.Now()
		got := c.during(get("DELETE", "/manifests/"+last.Manifest, 202))
		if took := time.Since(begun); took < 4*time.Second || try == 19 {
			compare("manifest DELETE among 1,201 tags", got)
			break
		}
	}
}

// Beside what operations cost, a replica that clients use takes one lease, and reads the lists of collections every three seconds.
func TestS3_RequestsToAgree(t *testing.T) {
	t.Parallel()
	c := countedS3(t, s3test.VersityGW(t, t.TempDir()))
	c.all = true
	replica := c.start()
	begun, pushes := time.Now(), 0
	got := c.during(func() {
		for ; time.Since(begun) < 7*time.Second; pushes++ {
			content := fmt.Append(nil, pushes)
			harness.PushBlob(t, replica.Addr, "app", harness.DigestOf(content), content)
			harness.Fetch(t, "HEAD", "http://"+replica.Addr+"/v2/app/blobs/"+harness.DigestOf(content), nil, nil)
		}
	})
	took := time.Since(begun)
	leases, lists := 0, 0
	for _, r := range got {
		switch r = strings.ReplaceAll(r, "%2F", "/"); {
		case strings.Contains(r, "/.slipway/lease/"):
			leases++
		case strings.Contains(r, "/.slipway/collect/"):
			lists++
		}
	}
	if leases < 2 || leases > 3+int(took/(2*time.Minute)) || lists == 0 || lists > int(took/(3*time.Second))+2 {
		t.Errorf("%d pushes in %v: %d requests for the lease, %d for lists", pushes, took, leases, lists)
	}
}

// A replica that nobody uses sends next to nothing: the health check's listing every five minutes, and three requests of
// the one for writing every twenty; the first ones come sooner.
func TestFull_S3_IdleReplica_SendsNextToNothing(t *testing.T) {
	t.Parallel()
	server := s3test.MinIO(t, t.TempDir())
	server.Bucket(t, "images")
	c := newStoreCounter(t, server.URL())
	c.all = true
	replica := harness.StartOnS3(t, c.URL)
	c.during(func() { harness.NewImage(t, 1, 2, 1000).Push(t, replica.Addr, "idle", "v1") })
	const span = 20 * time.Second
	got := c.during(func() { time.Sleep(span) })
	other := slices.DeleteFunc(slices.Clone(got), func(r string) bool {
		return strings.Contains(r, "max-keys=1&") || strings.Contains(r, "/.slipway/check/") // the health checks'
	})
	if len(got) > 4 || len(other) > 0 {
		t.Errorf("%d requests in %v, %d of them not for the health checks:\n%s", len(got), span, len(other), strings.Join(got, "\n"))
	}
}
