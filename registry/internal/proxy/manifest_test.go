package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

const tagPath = "/v2/hub/app/manifests/v1"

// code is the error code of an answer.
func code(body []byte) oci.Code {
	var answer struct {
		Errors []struct {
			Code oci.Code `json:"code"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Errors) == 0 {
		return ""
	}
	return answer.Errors[0].Code
}

// down has the connection broken off.
func down(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// The table of docs/registry/pull-through-cache.md: what a client gets when the upstream fails, of
// what is cached and of what is not.
func TestPolicy_UpstreamFails(t *testing.T) {
	for _, row := range []struct {
		name    string
		fault   func(*world)
		warning string // of what is cached
		status  int    // of what is not
		code    oci.Code
		retry   string
	}{
		{"down", func(w *world) { w.front.fail(down) }, "cannot be reached", 502, oci.CodeUnavailable, ""},
		{"slow", func(w *world) {
			stop := make(chan struct{})
			w.t.Cleanup(func() { close(stop) })
			w.impatient()
			w.front.fail(func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-r.Context().Done():
				case <-stop:
				}
				return true
			})
		}, "doesn't answer in time", 502, oci.CodeUnavailable, ""},
		{"5xx", func(w *world) { w.front.with(502) }, "has a fault", 502, oci.CodeUnavailable, ""},
		{"429", func(w *world) { w.front.with(429, "Retry-After", "77") }, "limits the number of requests", 429, oci.CodeTooManyRequests, "77"},
		{"401", func(w *world) { w.front.with(401) }, "denies access", 403, oci.CodeDenied, ""},
		{"wrong login", func(w *world) {
			w.source.Client = upstream.New(upstream.Options{URL: w.source.Client.URL(), Credentials: upstream.Password("ci", "wrong")})
			w.front.with(401, "WWW-Authenticate", "Basic")
		}, "refuses the login", 502, oci.CodeUnavailable, ""},
		{"403", func(w *world) { w.front.with(403) }, "denies access", 403, oci.CodeDenied, ""},
		{"404", func(w *world) { w.front.with(404) }, "doesn't have it any more", 404, oci.CodeManifestUnknown, ""},
		{"another digest", func(w *world) {
			w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
				rw.Header().Set("Docker-Content-Digest", string(oci.SHA256.FromBytes([]byte("x"))))
				rw.Write([]byte(`{"schemaVersion":2}`))
				return true
			})
		}, "gave an invalid answer", 502, oci.CodeUnavailable, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, func(o *Options, s *Source, _ *registry.Options, u *upstream.Options) {
				s.TagTTL = 0
			})
			patient := w.source.Client
			m := w.push("app", "v1", []byte("layer"))
			if resp, body := w.get(tagPath); resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) || resp.Header.Get("Warning") != "" {
				t.Fatalf("the first pull: %s %s", resp.Status, body)
			}
			row.fault(w)
			for range 2 {
				resp, body := w.get(tagPath)
				if resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) || !strings.Contains(resp.Header.Get("Warning"), row.warning) {
					t.Errorf("cached: %s, warning %q", resp.Status, resp.Header.Get("Warning"))
				}
			}
			if resp, body := w.get("/v2/hub/app/manifests/" + string(m.Digest)); resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) {
				t.Errorf("cached, by digest: %s", resp.Status)
			}
			resp, body := w.get("/v2/hub/app/manifests/other")
			if row.name == "429" { // by now some seconds may have passed
				row.retry = resp.Header.Get("Retry-After")
				if row.retry == "" || len(row.retry) != 2 {
					t.Errorf("Retry-After is %q", row.retry)
				}
			}
			if resp.StatusCode != row.status || code(body) != row.code || resp.Header.Get("Retry-After") != row.retry {
				t.Errorf("not cached: %s %s, Retry-After %q", resp.Status, body, resp.Header.Get("Retry-After"))
			}
			// And it recovers.
			w.front.fail(nil)
			w.source.Client = patient
			w.clock.move(2 * time.Minute)
			if resp, _ := w.get(tagPath); resp.StatusCode != 200 || resp.Header.Get("Warning") != "" {
				t.Errorf("afterwards: %s, warning %q", resp.Status, resp.Header.Get("Warning"))
			}
		})
	}
}

// A login that the upstream refuses turns its health red, is logged once, and isn't sent again
// for each client.
func TestPolicy_WrongLogin(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	w := newWorld(t, func(o *Options, _ *Source, _ *registry.Options, u *upstream.Options) {
		o.Log, u.Credentials = zap.New(core), upstream.Password("ci", "wrong")
	})
	w.front.with(401, "WWW-Authenticate", "Basic")
	if err := w.source.Check(t.Context()); err == nil {
		t.Error("the upstream is healthy")
	}
	w.front.requests("")
	for range 5 {
		if resp, body := w.get(tagPath); resp.StatusCode != 502 || !strings.Contains(string(body), "hub refuses the login") {
			t.Errorf("%s %s", resp.Status, body)
		}
	}
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d more requests with a login that is refused", n)
	}
	if n := logged.FilterMessageSnippet("refuses the configured login").Len(); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	w.front.fail(nil)
	w.push("app", "v1", []byte("layer"))
	check(t, w.source.Check(t.Context()))
	if resp, body := w.get(tagPath); resp.StatusCode != 200 {
		t.Errorf("afterwards: %s %s", resp.Status, body)
	}
}

// A check that takes longer than a client waits goes on without it.
func TestPolicy_SlowCheck(t *testing.T) {
	w := newWorld(t, func(o *Options, s *Source, _ *registry.Options, _ *upstream.Options) {
		s.TagTTL, o.Patience = time.Minute, 50*time.Millisecond
	})
	w.push("app", "v1", []byte("layer"))
	w.get(tagPath)
	w.clock.move(time.Hour)
	go_ := make(chan struct{})
	w.front.fail(func(http.ResponseWriter, *http.Request) bool { <-go_; return false })
	if resp, _ := w.get(tagPath); resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Warning"), "in time") {
		t.Errorf("%s, warning %q", resp.Status, resp.Header.Get("Warning"))
	}
	close(go_)
	w.front.requests("")
	for { // the check ends, and then nothing is asked any more
		resp, _ := w.get(tagPath)
		if resp.Header.Get("Warning") == "" {
			break
		}
	}
	w.front.requests("")
	w.get(tagPath)
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestPolicy_TagTTL(t *testing.T) {
	w := newWorld(t)
	one := w.push("app", "v1", []byte("one"))
	for range 3 {
		w.get(tagPath)
	}
	if n := w.front.requests(""); n != 1 {
		t.Errorf("%d requests within the time of a tag", n)
	}
	w.clock.move(6 * time.Minute)
	w.get(tagPath)
	if all, gets := w.front.requests(""), w.front.requests("GET"); all != 1 || gets != 0 {
		t.Errorf("%d requests, %d of them GET, to check a tag", all, gets)
	}
	two := w.push("app", "v1", []byte("two"))
	if _, body := w.get(tagPath); !bytes.Equal(body, one.Bytes) {
		t.Error("a tag moved within its time")
	}
	w.clock.move(6 * time.Minute)
	if _, body := w.get(tagPath); !bytes.Equal(body, two.Bytes) {
		t.Error("a tag has not moved after its time")
	}
	w.front.requests("")
	w.get("/v2/hub/app/manifests/" + string(one.Digest))
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d requests for a digest that is cached", n)
	}
}

// Checks and misses at the same time are one request.
func TestPolicy_Coalesced(t *testing.T) {
	w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.TagTTL = time.Minute })
	w.push("app", "v1", []byte("one"))
	for _, method := range []string{"GET", "HEAD"} {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				if resp, _, err := w.try("GET", tagPath); err != nil || resp.StatusCode != 200 {
					t.Errorf("%v, %v", resp, err)
				}
			})
		}
		all.Wait()
		if n := w.front.requests(method); n != 1 {
			t.Errorf("%d requests with %s", n, method)
		}
		w.clock.move(time.Hour)
	}
}

// Content with a digest is requested once for all clients, and never again.
func TestPolicy_Digest(t *testing.T) {
	w := newWorld(t)
	layer := []byte("layer")
	m := w.push("app", "v1", layer)
	for range 2 {
		var all sync.WaitGroup
		for range 32 {
			for _, path := range []string{"/v2/hub/app/manifests/" + string(m.Digest), blobPath(layer)} {
				all.Go(func() {
					if resp, _, err := w.try("GET", path); err != nil || resp.StatusCode != 200 {
						t.Errorf("%v, %v", resp, err)
					}
				})
			}
		}
		all.Wait()
		w.settle()
		w.clock.move(time.Hour)
	}
	if n := w.front.requests("GET"); n != 2 {
		t.Errorf("%d requests for a manifest and a blob", n)
	}
}

func TestPolicy_UnknownNames(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		if resp, body := w.get("/v2/hub/app/manifests/none"); resp.StatusCode != 404 || code(body) != oci.CodeManifestUnknown {
			t.Errorf("%s %s", resp.Status, body)
		}
		w.get("/v2/hub/app/manifests/" + string(oci.SHA256.FromBytes([]byte("none"))))
	}
	if n := w.front.requests(""); n != 2 {
		t.Errorf("%d requests", n)
	}
	w.push("app", "none", []byte("layer"))
	w.clock.move(time.Minute)
	if resp, _ := w.get("/v2/hub/app/manifests/none"); resp.StatusCode != 200 {
		t.Errorf("after a while: %s", resp.Status)
	}
}

// An image that is deleted upstream stays for its time.
func TestPolicy_DeletedUpstream(t *testing.T) {
	w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.TTL = 24 * time.Hour })
	m := w.push("app", "v1", []byte("layer"))
	w.get(tagPath)
	_, err := w.origin.Repository("app").DeleteManifest(t.Context(), m.Digest)
	check(t, err)
	w.clock.move(23 * time.Hour)
	if resp, _ := w.get(tagPath); resp.StatusCode != 200 || resp.Header.Get("Warning") == "" {
		t.Errorf("within its time: %s", resp.Status)
	}
	w.clock.move(2 * time.Hour)
	if resp, body := w.get(tagPath); resp.StatusCode != 404 || code(body) != oci.CodeManifestUnknown {
		t.Errorf("after its time: %s", resp.Status)
	}
}

// A tag that still stands is noted to, so that its time begins again.
func TestPolicy_ConfirmedTagsStay(t *testing.T) {
	store := memory.New()
	w := newWorld(t, func(_ *Options, _ *Source, ro *registry.Options, _ *upstream.Options) { ro.Store = store })
	w.push("app", "v1", []byte("layer"))
	w.get(tagPath)
	before, err := w.reg.Cached("hub/app").TagModified(t.Context(), "v1")
	check(t, err)
	w.clock.move(2 * time.Hour)
	time.Sleep(2 * time.Millisecond) // of the store's own clock
	w.get(tagPath)
	after, err := w.reg.Cached("hub/app").TagModified(t.Context(), "v1")
	check(t, err)
	if !after.After(before) {
		t.Errorf("%v is not after %v", after, before)
	}
}

func TestPolicy_Offline(t *testing.T) {
	w := newWorld(t)
	m := w.push("app", "v1", []byte("layer"))
	w.get(tagPath)
	w.front.requests("")
	w.source.Offline = true
	w.clock.move(time.Hour)
	resp, body := w.get(tagPath)
	if resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) || !strings.Contains(resp.Header.Get("Warning"), "offline") {
		t.Errorf("%s, warning %q", resp.Status, resp.Header.Get("Warning"))
	}
	for _, path := range []string{"/v2/hub/app/manifests/v2", blobPath([]byte("none")), "/v2/hub/other/tags/list"} {
		if resp, body := w.get(path); resp.StatusCode/100 == 2 {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	if _, body := w.get("/v2/hub/app/tags/list"); !strings.Contains(string(body), `"v1"`) {
		t.Errorf("tags: %s", body)
	}
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// Nothing of an upstream is needed to start.
func TestPolicy_StartWithoutUpstream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := l.Addr().String()
	l.Close()
	w := newWorld(t, func(_ *Options, _ *Source, _ *registry.Options, u *upstream.Options) { u.URL.Host = address })
	resp, body := w.get(tagPath)
	if resp.StatusCode != 502 || code(body) != oci.CodeUnavailable || strings.Contains(string(body), address) {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// Retry-After is obeyed, and ends.
func TestPolicy_RetryAfter(t *testing.T) {
	w := newWorld(t)
	w.push("app", "v1", []byte("layer"))
	w.front.with(429, "Retry-After", "60")
	w.get(tagPath)
	w.front.requests("")
	w.front.fail(nil)
	if resp, _ := w.get(tagPath); resp.StatusCode != 429 {
		t.Errorf("at once: %s", resp.Status)
	}
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d requests while the upstream asks to wait", n)
	}
	w.clock.move(61 * time.Second)
	if resp, _ := w.get(tagPath); resp.StatusCode != 200 {
		t.Errorf("afterwards: %s", resp.Status)
	}
}

// A full disk does not keep clients from manifests.
func TestPolicy_FullDisk(t *testing.T) {
	full := &fullStore{Store: memory.New(), full: true}
	w := newWorld(t, func(_ *Options, _ *Source, ro *registry.Options, _ *upstream.Options) { ro.Store = full })
	m := w.push("app", "v1", []byte("layer"))
	for _, path := range []string{tagPath, "/v2/hub/app/manifests/" + string(m.Digest)} {
		if resp, body := w.get(path); resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

// A client that leaves does not stop what others wait for.
func TestPolicy_LeavingClient(t *testing.T) {
	w := newWorld(t)
	w.push("app", "v1", []byte("layer"))
	go_ := make(chan struct{})
	w.front.fail(func(http.ResponseWriter, *http.Request) bool { <-go_; return false })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+tagPath, nil)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	for w.front.requests("GET") == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-left
	close(go_)
	if resp, _ := w.get(tagPath); resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	if n := w.front.requests(""); n > 0 {
		t.Errorf("%d more requests", n)
	}
}
