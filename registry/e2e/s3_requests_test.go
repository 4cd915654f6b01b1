package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

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

// How many requests to the store each operation costs, which no change may raise unseen.
func TestS3_RequestsPerOperation(t *testing.T) {
	server, _ := minioBucket(t)
	for mode, most := range map[string]map[string]int{
		// A manifest in memory is looked for again after a second: one more than is usual.
		"false": {"push in chunks": 5, "push at once": 5, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest by tag, cold": 4, "manifest by tag": 3, "manifest by digest": 2, "tags": 1},
		"true":  {"push in chunks": 12, "push at once": 6, "blob HEAD": 2, "blob GET": 2, "blob GET redirected": 2, "mount": 3, "manifest PUT": 12, "manifest by tag, cold": 4, "manifest by tag": 3, "manifest by digest": 2, "tags": 1},
	} {
		t.Run("shared "+mode, func(t *testing.T) {
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
			count("push in chunks", func() {
				resp, _ := fetch(t, "POST", at+repo+"/blobs/uploads/", nil, nil)
				next := patch(t, replica.addr, absolute(t, replica.addr, resp.Header.Get("Location")), content)
				if resp, body := fetch(t, "PUT", withQuery(t, next, "digest", digestOf([]byte(content))), nil, nil); resp.StatusCode != http.StatusCreated {
					t.Fatalf("PUT: %s %s", resp.Status, body)
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
		})
	}
}
