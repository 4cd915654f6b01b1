package proxy

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

func TestRouting(t *testing.T) {
	hub := &Source{Name: "hub", Prefix: "hub", Namespaces: []string{"docker.io"}, Library: true, Client: upstream.New(upstream.Options{URL: &url.URL{Host: "mirror.example.com"}})}
	deep := &Source{Name: "deep", Prefix: "hub/deep", Namespaces: []string{"quay.io"}, Client: upstream.New(upstream.Options{})}
	rest := &Source{Name: "rest", Namespaces: []string{"ghcr.io"}, Client: upstream.New(upstream.Options{})}
	c := New(Options{Sources: []*Source{hub, deep, rest}, Local: localNames(t, "team/**", "tools")})
	for _, test := range []struct {
		name   oci.Name
		source *Source
		remote oci.Name
	}{
		{"hub/alpine", hub, "library/alpine"},
		{"hub/library/alpine", hub, "library/alpine"},
		{"hub/deep/x", deep, "x"},
		{"hub", rest, "hub"},
		{"hubble/x", rest, "hubble/x"},
		{"team/app", nil, ""},
		{"tools", nil, ""},
		{"teams/app", rest, "teams/app"},
	} {
		s := c.source(test.name)
		if s != test.source {
			t.Errorf("%s is of %v", test.name, s)
		} else if s != nil && s.remote(test.name) != test.remote {
			t.Errorf("%s is %s there", test.name, s.remote(test.name))
		}
	}
	for name, want := range map[oci.Name]oci.Name{
		"hub/alpine": "hub/library/alpine", "hub/library/alpine": "hub/alpine", "hub/library": "hub/library/library", "hub/library/library": "hub/library",
		"hub/a/b": "", "hub/library/a/b": "", "hub/deep/x": "", "hub": "", "hubble/x": "", "library/alpine": "", "team/app": "", "tools": "",
		"hub/library/deep": "hub/deep",
	} {
		if got := c.Twin(name); got != want {
			t.Errorf("the twin of %s is %q, want %q", name, got, want)
		}
	}
	all := New(Options{Sources: []*Source{{Library: true, Client: upstream.New(upstream.Options{})}}, Local: localNames(t, "tools")})
	for name, want := range map[oci.Name]oci.Name{"alpine": "library/alpine", "library/alpine": "alpine", "library/tools": "", "tools": ""} {
		if got := all.Twin(name); got != want {
			t.Errorf("the twin of %s is %q, want %q", name, got, want)
		}
	}
	for _, test := range []struct {
		namespace string
		name      oci.Name
		want      oci.Name
		literal   oci.Name
	}{
		{"docker.io", "library/alpine", "hub/library/alpine", ""},
		{"registry-1.docker.io", "library/alpine", "hub/library/alpine", ""},
		{"Docker.io:443", "library/alpine", "hub/library/alpine", ""},
		{"mirror.example.com", "library/alpine", "hub/library/alpine", ""}, // the host of remoteurl
		{"quay.io", "a/b", "hub/deep/a/b", ""},
		{"ghcr.io", "a/b", "a/b", ""},
		{"registry.example.org", "team/app", "", ""}, // another registry's team/app
		{"registry.example.org", "a/b", "", ""},
		{"ghcr.io", "hub/alpine", "", ""}, // would be that of docker.io
		{"docker.io", "deep/x", "", ""},   // would be that of quay.io
		{"ghcr.io", "team/app", "", ""},   // would be what was pushed here
		{"docker.io", "hub/library/alpine", "hub/library/alpine", "hub/hub/library/alpine"},
		{"docker.io", "hub", "hub/hub", ""},
		{"docker.io", "hubble/x", "hub/hubble/x", ""},
		{"quay.io", "hub/deep/x", "hub/deep/x", "hub/deep/hub/deep/x"},
		{"docker.io", "hub/deep/x", "hub/hub/deep/x", ""}, // hub/deep/x here is that of quay.io
	} {
		for _, own := range []bool{false, true} {
			got, literal, err := c.Within(test.namespace, own, test.name)
			want := test.want
			if own && test.namespace == "registry.example.org" {
				want = test.name
			}
			if got != want || literal != test.literal || (err != nil) != (want == "") {
				t.Errorf("%s of %s (own %v) is %s or %s, %v", test.name, test.namespace, own, got, literal, err)
			}
		}
	}
}

// Lists are kept by their weight: an upstream chooses how long they are.
func TestListed_Weight(t *testing.T) {
	long := listed{tags: []string{strings.Repeat("t", 100)}, referrers: []oci.Descriptor{{Annotations: map[string]string{"k": strings.Repeat("v", 1000)}}}}
	if n := long.weight(); n < 1100 {
		t.Errorf("weight %d", n)
	}
}

// Clients say which registry they mean, as containerd does.
func TestNamespace(t *testing.T) {
	w := newWorld(t)
	layer := noise(20, 1000)
	m := w.push("library/alpine", "v1", layer)
	if resp, body := w.get("/v2/library/alpine/manifests/v1?ns=docker.io"); resp.StatusCode != 200 || !bytes.Equal(body, m.Bytes) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, body := w.get("/v2/library/alpine/blobs/" + string(oci.SHA256.FromBytes(layer)) + "?ns=docker.io"); resp.StatusCode != 200 || !bytes.Equal(body, layer) {
		t.Errorf("%s", resp.Status)
	}
	if resp, _ := w.get("/v2/hub/library/alpine/manifests/v1"); resp.StatusCode != 200 {
		t.Errorf("by its path: %s", resp.Status)
	}
	if resp, _ := w.get("/v2/library/alpine/manifests/v1?ns=quay.io"); resp.StatusCode != 404 {
		t.Errorf("of another registry: %s", resp.Status)
	}
	resp, body := w.get("/v2/library/alpine/tags/list?n=0&ns=docker.io")
	if resp.StatusCode != 200 {
		t.Errorf("tags: %s %s", resp.Status, body)
	}
	// A path with the prefix, as containerd's override_path makes it.
	w.push("hub/tool", "v1", layer)
	for path, want := range map[string]int{
		"/v2/hub/library/alpine/manifests/v1?ns=docker.io": 200, "/v2/hub/library/alpine/tags/list?ns=docker.io": 200,
		"/v2/hub/tool/manifests/v1?ns=docker.io": 200, "/v2/hub/tool/blobs/" + string(oci.SHA256.FromBytes(layer)) + "?ns=docker.io": 200,
		"/v2/hub/none/manifests/v1?ns=docker.io": 404,
	} {
		if resp, body := w.get(path); resp.StatusCode != want {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	w.front.requests("")
	if _, body := w.get("/v2/hub/library/alpine/manifests/v1?ns=docker.io"); !bytes.Equal(body, m.Bytes) || w.front.requests("") != 0 {
		t.Errorf("the path and the namespace lead to two caches")
	}
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool { // as Docker Hub answers for what it doesn't have
		denied := strings.HasPrefix(r.URL.Path, "/v2/other/")
		if denied {
			rw.WriteHeader(http.StatusUnauthorized)
		}
		return denied
	})
	w.push("hub/other/tool", "v1", layer)
	if resp, body := w.get("/v2/hub/other/tool/manifests/v1?ns=docker.io"); resp.StatusCode != 200 {
		t.Errorf("a repository that begins with the prefix: %s %s", resp.Status, body)
	}
	// This registry's own name.
	pushTo(t, w.reg.Repository("team/app"), "v1", layer)
	own := strings.TrimPrefix(w.url, "http://")
	for namespace, want := range map[string]int{own: 200, "registry.example.org": 404} {
		if resp, body := w.get("/v2/team/app/manifests/v1?ns=" + namespace); resp.StatusCode != want {
			t.Errorf("a local repository as that of %s: %s %s", namespace, resp.Status, body)
		}
	}
	if resp, body, err := w.try("POST", "/v2/team/app/blobs/uploads/?ns="+own); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Errorf("an upload: %v %s", err, body)
	}
}

// Pushes go beside the caches, and never into them.
func TestPushesBesideCaches(t *testing.T) {
	w := newWorld(t, emptyPrefix, func(o *Options, _ *Source, _ *registry.Options, _ *upstream.Options) {
		o.Local = localNames(t, "team/**")
	})
	w.push("library/alpine", "v1", []byte("layer"))
	if resp, _ := w.get("/v2/library/alpine/manifests/v1"); resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	pushTo(t, w.reg.Repository("team/app"), "v1", []byte("ours"))
	w.front.requests("")
	if resp, _ := w.get("/v2/team/app/manifests/v1"); resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	if resp, _ := w.get("/v2/team/app/manifests/none"); resp.StatusCode != 404 {
		t.Errorf("%s", resp.Status)
	}
	if n := w.front.requests(""); n != 0 {
		t.Errorf("the upstream was asked %d times for what is local", n)
	}
	for _, request := range []string{"POST /blobs/uploads/", "PUT /manifests/v1", "DELETE /manifests/v1", "DELETE /blobs/" + string(oci.SHA256.FromBytes(nil)), "PATCH /blobs/uploads/4a3f1c9e-0000-4000-8000-000000000000"} {
		method, path, _ := strings.Cut(request, " ")
		resp, body, err := w.try(method, "/v2/library/alpine"+path)
		check(t, err)
		if resp.StatusCode != http.StatusMethodNotAllowed || code(body) != oci.CodeUnsupported || resp.Header.Get("Allow") == "" {
			t.Errorf("%s: %s %s, Allow %q", request, resp.Status, body, resp.Header.Get("Allow"))
		}
	}
}

func TestTagsAndReferrers(t *testing.T) {
	w := newWorld(t)
	m := w.push("app", "v1", []byte("layer"))
	w.push("app", "v2", []byte("layer"))
	body := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","artifactType":"a/sbom","config":{"mediaType":"a/b","digest":"` +
		string(oci.SHA256.FromBytes([]byte("layer"))) + `","size":5},"layers":[],"subject":{"mediaType":"` + oci.MediaTypeManifest + `","digest":"` + string(m.Digest) + `","size":1}}`)
	res, err := w.origin.Repository("app").PutManifest(t.Context(), oci.Reference{Digest: oci.SHA256.FromBytes(body)}, "", body, nil)
	check(t, err)
	tags, referrers := "/v2/hub/app/tags/list", "/v2/hub/app/referrers/"+string(m.Digest)
	lists := func(when, warning string) {
		t.Helper()
		for _, path := range []string{tags, referrers} {
			if resp, _ := w.get(path); !strings.HasPrefix(resp.Header.Get("Warning"), warning) || warning == "" && resp.Header.Get("Warning") != "" {
				t.Errorf("%s: %s: Warning: %q", when, path, resp.Header.Get("Warning"))
			}
		}
		if _, body := w.get(tags); string(body) != `{"name":"hub/app","tags":["v1","v2"]}`+"\n" {
			t.Errorf("%s: %s", when, body)
		}
		if _, body := w.get(referrers); !strings.Contains(string(body), string(res.Descriptor.Digest)) || !strings.Contains(string(body), `"artifactType":"a/sbom"`) {
			t.Errorf("%s: %s", when, body)
		}
	}
	lists("first", "")
	w.front.requests("")
	lists("again", "")
	if n := w.front.requests(""); n != 0 {
		t.Errorf("%d requests for lists that are fresh", n)
	}
	if _, body := w.get(referrers + "?artifactType=b/c"); strings.Contains(string(body), "a/sbom") {
		t.Errorf("filtered: %s", body)
	}
	if resp, _ := w.get("/v2/hub/app/manifests/" + string(res.Descriptor.Digest)); resp.StatusCode != 200 {
		t.Errorf("a referrer: %s", resp.Status)
	}
	w.clock.move(time.Hour)
	w.front.fail(down)
	lists("down", "111 ")
	w.clock.move(failurePause)
	lists("still down", "111 ")
	w.source.Offline = true
	lists("offline", "112 ")
	w.source.Offline = false
	if resp, body := w.get("/v2/hub/none/tags/list"); resp.StatusCode != 502 {
		t.Errorf("unknown and down: %s %s", resp.Status, body)
	}
	w.front.fail(nil)
	w.clock.move(time.Hour)
	if resp, body := w.get("/v2/hub/none/tags/list"); resp.StatusCode != 404 || code(body) != oci.CodeNameUnknown {
		t.Errorf("unknown: %s %s", resp.Status, body)
	}
	w.front.requests("")
	if resp, _ := w.get("/v2/hub/none/tags/list"); resp.StatusCode != 404 || w.front.requests("") != 0 {
		t.Errorf("unknown again: %s, or the upstream was asked", resp.Status)
	}
	w.clock.move(time.Minute)
	if resp, _ := w.get("/v2/hub/none/tags/list"); resp.StatusCode != 404 || w.front.requests("") != 1 {
		t.Errorf("unknown later: %s, or the upstream was not asked once", resp.Status)
	}
}

// Cached tags are listed, with a warning, if the upstream has never sent a list.
func TestTags_OfTheCache(t *testing.T) {
	w := newWorld(t)
	w.push("app", "v1", []byte("layer"))
	w.push("app", "v2", []byte("layer"))
	w.pull("hub/app", "v1")
	w.front.fail(down)
	resp, body := w.get("/v2/hub/app/tags/list")
	if string(body) != `{"name":"hub/app","tags":["v1"]}`+"\n" || !strings.HasPrefix(resp.Header.Get("Warning"), "111 ") {
		t.Errorf("%s, Warning: %q", body, resp.Header.Get("Warning"))
	}
}

// The counters that distribution's dashboards use.
func TestMetrics_OfDistribution(t *testing.T) {
	metrics := prometheus.NewRegistry()
	w := newWorld(t, func(o *Options, _ *Source, _ *registry.Options, _ *upstream.Options) { o.Metrics = NewMetrics(metrics) })
	layer := noise(130, 1000)
	m := w.push("app", "v1", layer)
	for range 2 {
		w.get("/v2/hub/app/manifests/v1")
		w.get("/v2/hub/app/blobs/" + string(oci.SHA256.FromBytes(layer)))
		w.settle()
	}
	w.get("/v2/hub/app/blobs/"+string(oci.SHA256.FromBytes(layer)), "Range", "bytes=0-9")
	count := func(vec *prometheus.CounterVec, kind string) int {
		return int(testutil.ToFloat64(vec.WithLabelValues("hub", kind)))
	}
	all := w.cache.opts.Metrics
	for kind, want := range map[string][]int{"manifest": {2, 1, 1, 2 * len(m.Bytes)}, "blob": {3, 2, 1, 2*len(layer) + 10}} {
		got := []int{count(all.requests, kind), count(all.hits, kind), count(all.misses, kind), count(all.pushed, kind)}
		if !slices.Equal(got, want) {
			t.Errorf("%s: requests, hits, misses and bytes are %v, want %v", kind, got, want)
		}
	}
}
