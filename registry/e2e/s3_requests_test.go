package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
)

// storeCounter passes requests on to an S3 server and counts them, without those by which
// replicas agree.
type storeCounter struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newStoreCounter(t *testing.T, to *s3test.Server) *storeCounter {
	t.Helper()
	target, err := url.Parse(to.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	c := &storeCounter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := r.URL.Path + r.URL.Query().Get("prefix"); !strings.Contains(at, "/.slipway/") {
			c.mu.Lock()
			c.seen = append(c.seen, fmt.Sprintf("%s %s?%s", r.Method, strings.TrimPrefix(r.URL.Path, "/images/some/root/docker/registry/v2/"), r.URL.Query().Get("prefix")))
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
	return c.seen
}

// manyTags writes tags that point at a manifest.
func manyTags(t *testing.T, bucket *s3.Bucket, repo, manifest string, n int) {
	t.Helper()
	_, hex, _ := strings.Cut(manifest, ":")
	var all sync.WaitGroup
	free := make(chan struct{}, 16)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			for _, name := range []string{"current/link", "index/sha256/" + hex + "/link"} {
				key := fmt.Sprintf("some/root/docker/registry/v2/repositories/%s/_manifests/tags/tag%04d/%s", repo, i, name)
				if _, err := bucket.Put(t.Context(), key, object.Body{Content: strings.NewReader(manifest), Size: int64(len(manifest))}, object.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// How many requests to the store each operation costs, which no change may raise unseen.
func TestS3_RequestsPerOperation(t *testing.T) {
	for mode, most := range map[string]map[string]int{
		// A manifest in memory is looked for again after a second: one more than is usual.
		"false": {"push in chunks": 4, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 4, "10 chunks of 1 MiB": 4, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 6, "blob DELETE": 2, "upload status": 1, "upload cancelled": 3},
		"true":  {"push in chunks": 7, "push at once": 4, "push by one POST": 2, "push of 64 MiB": 10, "10 chunks of 1 MiB": 38, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest PUT again": 12, "manifest by tag, cold": 3, "manifest by tag": 3, "manifest by digest": 2, "tags": 1, "catalog of 2": 3, "tag DELETE": 6, "blob DELETE": 2, "manifest DELETE among 1,201 tags": 12, "upload status": 2, "upload cancelled": 7},
	} {
		t.Run("shared "+mode, func(t *testing.T) {
			server, bucket := minioBucket(t)
			c := newStoreCounter(t, server)
			// Schedules and health checks would be counted too.
			more := "health: {storagedriver: {enabled: false}}\nslipway: {objectstore: {shared: " + mode + "}}\n"
			replica := startOnS3(t, c.URL, more+"\n")
			redirects := startOnS3(t, c.URL, more, redirected)
			at := "http://" + replica.addr + "/v2/"
			count := func(name string, f func()) {
				t.Helper()
				got := c.during(f)
				t.Logf("%-22s %2d of at most %2d", name, len(got), most[name])
				if len(got) > most[name] {
					t.Errorf("%s costs %d requests, at most %d:\n%s", name, len(got), most[name], strings.Join(got, "\n"))
				}
			}
			repo := "count" + mode
			img := newImage(t, 61, 3, 4096)
			pushBlob(t, replica.addr, repo, digestOf([]byte("first")), []byte("first")) // registers the replica
			content := strings.Repeat(mode, 1000)
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
			count("push at once", func() { pushBlob(t, replica.addr, repo, digestOf([]byte("x"+mode)), []byte("x"+mode)) })
			get := func(method, path string, want int) func() {
				return func() {
					if resp, body := fetch(t, method, at+repo+path, acceptAll, nil); resp.StatusCode != want {
						t.Fatalf("%s %s: %s %s", method, path, resp.Status, body)
					}
				}
			}
			count("blob HEAD", get("HEAD", "/blobs/"+digestOf([]byte(content)), 200))
			count("blob GET", get("GET", "/blobs/"+digestOf([]byte(content)), 200))
			pushBlob(t, redirects.addr, repo, digestOf([]byte("first")), []byte("first")) // registers it
			count("blob GET redirected", func() {
				resp := fetchOnce(t, "http://"+redirects.addr+"/v2/"+repo+"/blobs/"+digestOf([]byte(content)), nil)
				if resp.StatusCode != http.StatusTemporaryRedirect {
					t.Fatalf("GET: %s", resp.Status)
				}
			})
			for d, b := range img.blobs {
				if d != img.manifest {
					pushBlob(t, replica.addr, repo, d, b)
				}
			}
			count("manifest PUT", func() { pushManifest(t, replica.addr, repo, "v1", img.blobs[img.manifest]) })
			count("manifest PUT again", func() { pushManifest(t, replica.addr, repo, "v1", img.blobs[img.manifest]) })
			other := startOnS3(t, c.URL, more)
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
			if mode == "false" {
				return // deletions cost the same, and many tags take time to write
			}
			manyTags(t, bucket, repo, img.manifest, 1200)
			last := newImage(t, 62, 1, 1024)
			last.push(t, other.addr, repo, "last")
			count("manifest DELETE among 1,201 tags", get("DELETE", "/manifests/"+last.manifest, 202))
		})
	}
}
