package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
)

var nopLog = zap.NewNop()

func blobPath(content []byte) string {
	return "/v2/hub/app/blobs/" + string(oci.SHA256.FromBytes(content))
}

// slowly answers blobs piece by piece, each when step says so.
func slowly(content []byte, pieces int, step <-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		for i := range pieces {
			<-step
			w.Write(content[i*len(content)/pieces : (i+1)*len(content)/pieces])
			w.(http.Flusher).Flush()
		}
		return true
	}
}

// The first bytes reach the client while the upstream still holds the rest back.
func TestBlob_StreamsWhileItComes(t *testing.T) {
	w := newWorld(t)
	content := noise(1, 300_000)
	step := make(chan struct{}, 10)
	w.front.fail(slowly(content, 3, step))
	step <- struct{}{}
	resp, err := http.Get(w.url + blobPath(content))
	check(t, err)
	defer resp.Body.Close()
	first := make([]byte, 100_000)
	if _, err := io.ReadFull(resp.Body, first); err != nil || !bytes.Equal(first, content[:100_000]) {
		t.Fatalf("the first bytes: %v", err)
	}
	step <- struct{}{}
	step <- struct{}{}
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(rest, content[100_000:]) {
		t.Fatalf("%d more bytes, %v", len(rest), err)
	}
	w.settle()
	if n := w.front.requests("GET"); n != 1 {
		t.Errorf("%d requests", n)
	}
	if _, body := w.get(blobPath(content)); !bytes.Equal(body, content) {
		t.Error("what was cached differs")
	}
	if n := w.front.requests("GET"); n != 0 {
		t.Errorf("%d requests for what is cached", n)
	}
}

// Many clients of one cold blob cost one request, wherever they join; those who leave
// disturb nobody.
func TestBlob_OneRequestForAll(t *testing.T) {
	w := newWorld(t)
	content := noise(2, 2_000_000)
	step := make(chan struct{}, 8)
	w.front.fail(slowly(content, 8, step))
	var all sync.WaitGroup
	var wrong, left atomic.Int32
	for i := range 64 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+blobPath(content), nil)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				wrong.Add(1)
				return
			}
			defer resp.Body.Close()
			if i%4 == 0 {
				io.ReadFull(resp.Body, make([]byte, 1000))
				left.Add(1)
				return
			}
			if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, content) {
				wrong.Add(1)
			}
		})
		if i%8 == 7 {
			step <- struct{}{}
		}
	}
	all.Wait()
	w.settle()
	if wrong.Load() != 0 || left.Load() != 16 {
		t.Errorf("%d clients got something else, %d have left", wrong.Load(), left.Load())
	}
	if n := w.front.requests("GET"); n != 1 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

// The only client leaves, and the blob is cached nevertheless.
func TestBlob_IsCachedThoughItsClientLeaves(t *testing.T) {
	w := newWorld(t)
	content := noise(3, 1_000_000)
	step := make(chan struct{}, 2)
	w.front.fail(slowly(content, 2, step))
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+blobPath(content), nil)
	step <- struct{}{}
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	cancel()
	resp.Body.Close()
	step <- struct{}{}
	w.settle()
	if _, err := w.reg.Cached("hub/app").StatBlob(t.Context(), oci.SHA256.FromBytes(content)); err != nil {
		t.Error(err)
	}
}

func TestBlob_RangesOfColdBlobs(t *testing.T) {
	for _, test := range []struct {
		header string
		status int
		from   int
		to     int
	}{
		{"bytes=100000-100099", 206, 100_000, 100_100},
		{"bytes=-5", 206, 499_995, 500_000},
		{"bytes=0-0", 206, 0, 1},
		{"bytes=499999-", 206, 499_999, 500_000},
		{"bytes=500000-", 416, 0, 0},
	} {
		w := newWorld(t)
		content := noise(4, 500_000)
		w.push("app", "v1", content)
		resp, body := w.get(blobPath(content), "Range", test.header)
		if resp.StatusCode != test.status || test.status == 206 && !bytes.Equal(body, content[test.from:test.to]) {
			t.Errorf("%s: %s with %d bytes", test.header, resp.Status, len(body))
		}
		w.settle()
		if _, body := w.get(blobPath(content)); !bytes.Equal(body, content) {
			t.Errorf("%s: what was cached differs", test.header)
		}
	}
}

// An upstream that does not say how long a blob is: it goes to the client once it is there.
func TestBlob_UnknownSize(t *testing.T) {
	w := newWorld(t)
	content := noise(9, 200_000)
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		for i := 0; i < len(content); i += 50_000 {
			rw.Write(content[i : i+50_000])
			rw.(http.Flusher).Flush()
		}
		return true
	})
	resp, body := w.get(blobPath(content))
	if resp.ContentLength != int64(len(content)) || !bytes.Equal(body, content) {
		t.Errorf("%d bytes of %d", len(body), resp.ContentLength)
	}
}

func TestBlob_Empty(t *testing.T) {
	w := newWorld(t)
	w.push("app", "v1", nil)
	for range 2 {
		resp, body := w.get(blobPath(nil))
		if resp.StatusCode != 200 || len(body) != 0 {
			t.Errorf("%s, %d bytes", resp.Status, len(body))
		}
		w.settle()
	}
}

// What another repository of the cache has is not fetched again, but the upstream has to
// say that it is in this one, too.
func TestBlob_OfAnotherRepository(t *testing.T) {
	w := newWorld(t)
	content := noise(10, 100_000)
	w.push("app", "v1", content)
	w.push("other", "v1", content)
	w.get(blobPath(content))
	w.settle()
	w.front.requests("")
	other := "/v2/hub/other/blobs/" + string(oci.SHA256.FromBytes(content))
	if _, body := w.get(other); !bytes.Equal(body, content) {
		t.Errorf("%d bytes", len(body))
	}
	if n := w.front.requests("GET"); n != 0 {
		t.Errorf("%d requests fetch it again", n)
	}
	foreign := "/v2/hub/foreign/blobs/" + string(oci.SHA256.FromBytes(content))
	if resp, _ := w.get(foreign); resp.StatusCode != 404 {
		t.Errorf("of a repository that does not have it: %s", resp.Status)
	}
	// The repository that got it first has lost it; the other one still has it.
	w.push("third", "v1", content)
	if err := w.store.Apply(t.Context(), nil, storage.Stage{{Key: layout.LayerLink("hub/app", oci.SHA256.FromBytes(content)), Delete: true}}); err != nil {
		t.Fatal(err)
	}
	w.front.requests("")
	if _, body := w.get("/v2/hub/third/blobs/" + string(oci.SHA256.FromBytes(content))); !bytes.Equal(body, content) {
		t.Errorf("%d bytes", len(body))
	}
	if n := w.front.requests("GET"); n != 0 {
		t.Errorf("%d requests fetch it for the third repository", n)
	}
}

// The bytes that another upstream delivered are fetched again, even if this one says that it has them.
func TestBlob_OfAnotherUpstream(t *testing.T) {
	w := newWorld(t, func(o *Options, hub *Source, _ *registry.Options, co *upstream.Options) {
		o.Sources = append(o.Sources, &Source{Name: "two", Prefix: "two", TagTTL: hub.TagTTL, TTL: hub.TTL, Client: upstream.New(*co)})
	})
	content := noise(20, 1000)
	w.push("app", "v1", content)
	w.get(blobPath(content))
	w.settle()
	w.front.requests("")
	if _, body := w.get("/v2/two/app/blobs/" + string(oci.SHA256.FromBytes(content))); !bytes.Equal(body, content) {
		t.Errorf("%d bytes", len(body))
	}
	if n := w.front.requests("GET"); n != 1 {
		t.Errorf("%d requests to the other upstream, want 1", n)
	}
}

// An upstream gets nothing of other repositories by claiming that it has it.
func TestBlob_ClaimedByTheUpstream(t *testing.T) {
	w := newWorld(t)
	secret := noise(15, 1000)
	pushTo(t, w.reg.Repository("team/secret"), "v1", secret)
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Length", "1000")
		if r.Method == http.MethodGet {
			rw.Write(noise(16, 1000))
		}
		return true
	})
	if resp, body, err := w.try(http.MethodGet, blobPath(secret)); err == nil && resp.StatusCode == 200 {
		t.Errorf("%s with %d bytes", resp.Status, len(body))
	}
	w.cache.work.Wait()
	if _, err := w.reg.Cached("hub/app").StatBlob(t.Context(), oci.SHA256.FromBytes(secret)); err == nil {
		t.Error("it is in the cache")
	}
}

// Clients cannot begin any number of transfers, which go on when they have left.
func TestBlob_TooManyTransfers(t *testing.T) {
	w := newWorld(t)
	content := noise(17, 1000)
	w.push("app", "v1", content)
	w.cache.mu.Lock()
	for i := range maxTransfers {
		w.cache.transfers[blobKey{"hub/app", oci.SHA256.FromBytes([]byte(strconv.Itoa(i)))}] = nil
	}
	w.cache.mu.Unlock()
	if resp, _ := w.get(blobPath(content)); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s, %v", resp.Status, resp.Header)
	}
	w.cache.mu.Lock()
	clear(w.cache.transfers)
	w.cache.mu.Unlock()
	if _, body := w.get(blobPath(content)); !bytes.Equal(body, content) {
		t.Errorf("%d bytes", len(body))
	}
}

func TestBlob_HeadCachesNothing(t *testing.T) {
	w := newWorld(t)
	content := noise(11, 100_000)
	w.push("app", "v1", content)
	resp, _, err := w.try(http.MethodHead, blobPath(content))
	check(t, err)
	if resp.StatusCode != 200 || resp.ContentLength != int64(len(content)) {
		t.Errorf("%s, %d bytes", resp.Status, resp.ContentLength)
	}
	if n := w.front.requests("GET"); n != 0 {
		t.Errorf("%d requests", n)
	}
	for range 3 {
		if resp, _, err := w.try(http.MethodHead, blobPath([]byte("none"))); err != nil || resp.StatusCode != 404 {
			t.Errorf("%v, %v", resp, err)
		}
	}
	if n := w.front.requests("HEAD"); n != 1 {
		t.Errorf("%d requests for what the upstream does not have", n)
	}
}
