package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// host is a registry in memory behind real HTTP.
type host struct {
	t      *testing.T
	url    string
	api    *API
	log    *zap.Logger
	logs   *observer.ObservedLogs
	client *http.Client
}

// setup holds a test's changes of the registry under test.
type setup struct {
	store   both
	options Options
	rules   registry.Options
}

type both = storage.Store

func newServer(t *testing.T, change ...func(*setup)) *host {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	s := setup{store: memory.New(), options: Options{Log: zap.New(core), DeleteEnabled: true, Secret: []byte("secret")}, rules: registry.Options{DeleteEnabled: true}}
	for _, c := range change {
		c(&s)
	}
	s.rules.Store = s.store
	s.options.Registry = registry.New(s.rules)
	a, err := New(s.options)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(a)
	t.Cleanup(ts.Close)
	client := ts.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &host{t: t, url: ts.URL, api: a, log: s.options.Log, logs: logs, client: client}
}

// answer is a response read to its end.
type answer struct {
	*http.Response
	body []byte
}

// do sends a request. target is a path or an absolute URL; headers are pairs.
func (s *host) do(method, target string, body []byte, headers ...string) answer {
	s.t.Helper()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	return s.send(method, target, r, headers...)
}

func (s *host) send(method, target string, body io.Reader, headers ...string) answer {
	s.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = s.url + target
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, target, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	if h := r.Header.Get("Host"); h != "" {
		r.Host = h
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: body: %v", method, target, err)
	}
	return answer{resp, b}
}

// want holds the answer against a status and pairs of header and value; the
// value "*" asks for any, "" for none.
func (a answer) want(t *testing.T, status int, headers ...string) answer {
	t.Helper()
	what := a.Request.Method + " " + a.Request.URL.RequestURI()
	if a.StatusCode != status {
		t.Fatalf("%s: status %d, want %d; body %s", what, a.StatusCode, status, a.body)
	}
	for i := 0; i < len(headers); i += 2 {
		got, want := strings.Join(a.Header.Values(headers[i]), ", "), headers[i+1]
		if want == "*" && got == "" || want != "*" && got != want {
			t.Errorf("%s: %s is %q, want %q", what, headers[i], got, want)
		}
	}
	if got := a.Header.Get("Docker-Distribution-Api-Version"); got != "registry/2.0" {
		t.Errorf("%s: Docker-Distribution-Api-Version is %q", what, got)
	}
	return a
}

// wantError holds the answer against status and code, and its body against the
// form of every error.
func (a answer) wantError(t *testing.T, status int, code oci.Code, headers ...string) answer {
	t.Helper()
	a.want(t, status, append([]string{"Content-Type", "application/json", "X-Request-Id", "*"}, headers...)...)
	if a.Request.Method == http.MethodHead {
		return a
	}
	var e struct {
		Errors []struct {
			Code    oci.Code
			Message string
		}
	}
	if err := json.Unmarshal(a.body, &e); err != nil || len(e.Errors) == 0 || !bytes.HasSuffix(a.body, []byte("\n")) {
		t.Fatalf("%s %s: not an error envelope: %q", a.Request.Method, a.Request.URL, a.body)
	}
	if e.Errors[0].Code != code || e.Errors[0].Message == "" {
		t.Errorf("%s %s: error %+v, want %s", a.Request.Method, a.Request.URL, e.Errors[0], code)
	}
	return a
}

// location is the absolute URL in Location.
func (a answer) location(t *testing.T) string {
	t.Helper()
	u, err := a.Location()
	if err != nil {
		t.Fatalf("%s %s: %v", a.Request.Method, a.Request.URL, err)
	}
	return u.String()
}

// with adds a parameter to a URL, as clients do with the Location of an upload.
func with(target, key, value string) string {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Add(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func digestOf(b []byte) oci.Digest { return oci.SHA256.FromBytes(b) }

// pushBlob uploads a blob by POST and PUT.
func (s *host) pushBlob(name string, content []byte) oci.Digest {
	s.t.Helper()
	d := digestOf(content)
	start := s.do("POST", "/v2/"+name+"/blobs/uploads/", nil).want(s.t, 202)
	s.do("PUT", with(start.location(s.t), "digest", string(d)), content).want(s.t, 201)
	return d
}

// image pushes config and layer and returns an OCI manifest of them.
func (s *host) image(name, content string, extra ...string) []byte {
	s.t.Helper()
	config := []byte(`{"os":"linux","name":"` + content + `"}`)
	layer := []byte("layer of " + content)
	m := `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `",` + strings.Join(append(extra, ""), ",") +
		`"config":` + describe("application/vnd.oci.image.config.v1+json", s.pushBlob(name, config), len(config)) +
		`,"layers":[` + describe("application/vnd.oci.image.layer.v1.tar", s.pushBlob(name, layer), len(layer)) + `]}`
	return []byte(m)
}

func describe(mediaType string, d oci.Digest, size int, extra ...string) string {
	b, _ := json.Marshal(oci.Descriptor{MediaType: mediaType, Digest: d, Size: int64(size)})
	return strings.TrimSuffix(string(b), "}") + strings.Join(append([]string{""}, extra...), ",") + "}"
}

// pushManifest pushes a manifest by reference.
func (s *host) pushManifest(name, reference, mediaType string, body []byte) oci.Digest {
	s.t.Helper()
	s.do("PUT", "/v2/"+name+"/manifests/"+reference, body, "Content-Type", mediaType).want(s.t, 201)
	return digestOf(body)
}

// repositoryRows calls f with each row that needs a permission in a repository, and a path.
func repositoryRows(f func(row *row, path string)) {
	d := string(digestOf(nil))
	paths := map[string]string{
		"tags": "/v2/a/tags/list", routeManifest: "/v2/a/manifests/latest", "blob": "/v2/a/blobs/" + d,
		routeUploads: "/v2/a/blobs/uploads/", "blob_upload_chunk": "/v2/a/blobs/uploads/0190b2f2-2a70-7bb9-8d0a-5d5a1a3a7e11", "referrers": "/v2/a/referrers/" + d,
	}
	for _, e := range new(API).v2() {
		for _, row := range e.rows {
			if p, ok := paths[e.name]; ok {
				f(row, p)
			}
		}
	}
}

func (s *host) logged(message string) []map[string]any {
	var lines []map[string]any
	for _, e := range s.logs.All() {
		if e.Message == message {
			lines = append(lines, e.ContextMap())
		}
	}
	return lines
}
