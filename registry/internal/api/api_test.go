package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/shared/health"
)

func TestRootAndRedirects(t *testing.T) {
	s := newServer(t)
	s.do("GET", "/", nil).want(t, 200, "Cache-Control", "no-cache", "Content-Length", "0")
	for path, want := range map[string]string{
		"/v2":                    "/v2/",
		"/v2/_catalog/?n=1":      "/v2/_catalog?n=1",
		"/v2/a/b/tags/list/?n=2": "/v2/a/b/tags/list?n=2",
		"/v2/a/b/manifests/x/":   "/v2/a/b/manifests/x",

		"//v2/":                       "/v2/",
		"//v2":                        "/v2",
		"//v2//_catalog?n=1":          "/v2/_catalog?n=1",
		"//example.org/../v2/":        "/v2/",
		"/v2//a/manifests/x":          "/v2/a/manifests/x",
		"/v2/a//b/manifests/x":        "/v2/a/b/manifests/x",
		"/v2/./a/b/manifests/x":       "/v2/a/b/manifests/x",
		"/v2/a/../b/tags/list":        "/v2/b/tags/list",
		"/v2/a/%2e%2e/b/tags/list?n=": "/v2/b/tags/list?n=",
	} {
		s.do("GET", path, nil).want(t, 301, "Location", want)
		s.do("HEAD", path, nil).want(t, 301, "Location", want)
	}
	s.do("PUT", "/v2//a/manifests/x", nil).want(t, 400)
	s.do("POST", "//v2/a/blobs/uploads/", nil).want(t, 404)
}

// TestEscapedSlashInAName: what calls a repository by one element of a URL, as
// web pages do that fill it into a template, escapes the slashes of its name.
func TestEscapedSlashInAName(t *testing.T) {
	s := newServer(t)
	m := s.pushManifest("a/b", "v1", oci.MediaTypeManifest, s.image("a/b", "x"))
	s.do("GET", "/v2/a%2Fb/manifests/v1", nil).want(t, 200, "Docker-Content-Digest", string(m))
	s.do("GET", "/v2/a%2fb/tags/list", nil).want(t, 200)
}

// Whatever a path holds, the answer is an error envelope.
func TestPathTricks(t *testing.T) {
	s := newServer(t)
	d := string(digestOf(nil))
	for path, want := range map[string]int{
		"/v2/../../etc/passwd":                                404,
		"/v2/../manifests/latest":                             400,
		"/v2/%2e%2e/%2e%2e/manifests/latest":                  400,
		"/v2/%2e%2e%2f%2e%2e/manifests/latest":                400,
		"/v2/a/manifests/..":                                  404,
		"/v2/a/manifests/%2e%2e":                              404,
		"/v2/a/manifests/..%2f..%2fx":                         404,
		"/v2//manifests/latest":                               404,
		"//v3/":                                               404,
		"/v2/a%00b/manifests/latest":                          400,
		"/v2/a/manifests/x%00y":                               404,
		"/v2/a/blobs/" + d + "%00":                            400,
		"/v2/a/blobs/..":                                      400,
		"/v2/a/blobs/sha256:../../../../../../x":              404,
		"/v2/a/blobs/uploads/..":                              404,
		"/v2/a/blobs/uploads/%2e%2e":                          404,
		"/v2/a/blobs/uploads/x%00":                            404,
		"/v2/_layers/manifests/x":                             400,
		"/v2/a/_manifests/tags/list":                          400,
		"/v2/A/manifests/x":                                   400,
		"/v2/localhost:5000/a/manifests/x":                    400,
		"/v2/%61/manifests/absent":                            404,
		"/v2/" + strings.Repeat("a", 256) + "/tags/list":      400,
		"/v2/" + strings.Repeat("a/", 3000) + "b/manifests/x": 400,
		"/v2/a/manifests/" + strings.Repeat("x", 5000):        404,
		"/v2/a/":                            404,
		"/v2/a":                             404,
		"/v1/":                              404,
		"/etc/passwd":                       404,
		"/v2/a/manifests/sha256%3A" + d[7:]: 404,
	} {
		got := s.do("GET", path, nil)
		var code oci.Code
		for _, c := range []oci.Code{oci.CodeNameInvalid, oci.CodeNameUnknown, oci.CodeManifestUnknown, oci.CodeDigestInvalid, oci.CodeBlobUploadUnknown} {
			if bytes.Contains(got.body, []byte(`"`+c+`"`)) {
				code = c
			}
		}
		got.wantError(t, want, code)
	}
}

func TestWrongMethods(t *testing.T) {
	s := newServer(t)
	d := string(digestOf(nil))
	for path, allow := range map[string]string{
		"/v2/":                      "GET, HEAD",
		"/v2/_catalog":              "GET, HEAD",
		"/v2/a/tags/list":           "GET, HEAD",
		"/v2/a/manifests/x":         "DELETE, GET, HEAD, PUT",
		"/v2/a/blobs/" + d:          "DELETE, GET, HEAD",
		"/v2/a/blobs/uploads/":      "POST",
		"/v2/a/_slipway/repository": "DELETE",
		"/v2/a/blobs/uploads/id":    "DELETE, GET, HEAD, PATCH, PUT",
		"/v2/a/referrers/" + d:      "GET, HEAD",
		"/v2/A..b/manifests/x":      "DELETE, GET, HEAD, PUT",
	} {
		s.do("TRACE", path, nil).wantError(t, 405, oci.CodeUnsupported, "Allow", allow)
		s.do("OPTIONS", path, nil).want(t, 200, "Allow", allow, "Content-Length", "0")
	}
	s.do("GET", "/v2/a/blobs/uploads/", nil).wantError(t, 405, oci.CodeUnsupported, "Allow", "POST")
	s.do("OPTIONS", "/nowhere", nil).wantError(t, 404, oci.CodeNameUnknown)
}

func TestConfiguredHeaders(t *testing.T) {
	s := newServer(t, func(s *setup) {
		s.options.Headers = http.Header{"x-content-type-options": {"nosniff"}, "X-Two": {"a", "b"}}
	})
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/", 200}, {"GET", "/v2/", 200}, {"GET", "/v2/a/manifests/x", 404}, {"GET", "/nowhere", 404}, {"PUT", "/v2/", 405}, {"GET", "/v2", 301}} {
		s.do(c.method, c.path, nil).want(t, c.status, "X-Content-Type-Options", "nosniff", "X-Two", "a, b")
	}
}

func TestPrefixAndHost(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.Prefix = "/reg/" })
	s.do("GET", "/v2/", nil).wantError(t, 404, oci.CodeNameUnknown)
	s.do("GET", "/reg/v2", nil).want(t, 301, "Location", "/reg/v2/")
	s.do("GET", "/reg/v2/", nil).want(t, 200)
	at := s.do("POST", "/reg/v2/a/blobs/uploads/", nil, "X-Forwarded-Proto", "https", "X-Forwarded-Host", "pub.example").want(t, 202)
	if !strings.HasPrefix(at.location(t), "https://pub.example/reg/v2/a/blobs/uploads/") {
		t.Errorf("Location %s", at.location(t))
	}
	relative := newServer(t, func(s *setup) { s.options.RelativeURLs = true })
	if got := relative.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).Header.Get("Location"); !strings.HasPrefix(got, "/v2/a/blobs/uploads/") {
		t.Errorf("Location %s", got)
	}
	if _, err := New(Options{Host: "no-scheme"}); err == nil {
		t.Error("a host without scheme is accepted")
	}
}

func TestConditionalRequests(t *testing.T) {
	s := newServer(t)
	d := string(s.pushManifest("a", "latest", oci.MediaTypeManifest, s.image("a", "x")))
	b := string(s.pushBlob("a", []byte("blob")))
	for _, c := range []struct{ path, digest string }{{"/v2/a/manifests/latest", d}, {"/v2/a/manifests/" + d, d}, {"/v2/a/blobs/" + b, b}} {
		for _, method := range []string{"GET", "HEAD"} {
			etag := `"` + c.digest + `"`
			s.do(method, c.path, nil, "If-None-Match", `"x", W/`+etag).want(t, 304, "Etag", etag, "Docker-Content-Digest", c.digest, "Content-Type", "")
			s.do(method, c.path, nil, "If-None-Match", "*").want(t, 304)
			s.do(method, c.path, nil, "If-None-Match", `"x"`).want(t, 200)
			s.do(method, c.path, nil, "If-Match", etag).want(t, 200)
			if got := s.do(method, c.path, nil, "If-Match", `"x"`).want(t, 412, "Etag", ""); method == "GET" && !bytes.Contains(got.body, []byte("errors")) {
				t.Errorf("412 with %s", got.body)
			}
		}
	}
	s.do("GET", "/v2/a/blobs/"+b, nil, "If-None-Match", "*").want(t, 304, "Cache-Control", "max-age=31536000")
}

func TestAcceptHeaders(t *testing.T) {
	s := newServer(t)
	const ociM, docM, docL = oci.MediaTypeManifest, oci.MediaTypeDockerManifest, oci.MediaTypeDockerList
	image := s.image("a", "x")
	s.pushManifest("a", "oci", ociM, image)
	docker := bytes.Replace(image, []byte(ociM), []byte(docM), 1)
	child := string(s.pushManifest("a", "docker", docM, docker))
	index := func(child []byte, mediaType, arch string) []byte {
		return []byte(`{"schemaVersion":2,"mediaType":"` + docL + `","manifests":[` + describe(mediaType, oci.SHA256.FromBytes(child), len(child), `"platform":{"os":"linux","architecture":"`+arch+`"}`) + `]}`)
	}
	d := string(s.pushManifest("a", "list", docL, index(docker, docM, "amd64")))
	s.pushManifest("a", "arm", docL, index(docker, docM, "arm64"))
	s.pushManifest("a", "mixed", docL, index(image, ociM, "amd64"))

	s.do("GET", "/v2/a/manifests/oci", nil, "Accept", docM).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("GET", "/v2/a/manifests/oci", nil, "Accept", "*/*").want(t, 200)
	s.do("GET", "/v2/a/manifests/oci", nil, "Accept", docM, "Accept", "text/plain, "+ociM).want(t, 200)
	s.do("GET", "/v2/a/manifests/list", nil, "Accept", docM+","+docL).want(t, 200, "Docker-Content-Digest", d)
	s.do("GET", "/v2/a/manifests/list", nil, "Accept", docM).want(t, 200, "Docker-Content-Digest", child, "Content-Type", docM, "Warning", "*")
	s.do("HEAD", "/v2/a/manifests/list", nil, "Accept", docM).want(t, 200, "Docker-Content-Digest", child)
	s.do("GET", "/v2/a/manifests/"+d, nil, "Accept", docM).want(t, 200, "Docker-Content-Digest", d)
	s.do("GET", "/v2/a/manifests/list", nil, "Accept", ociM).wantError(t, 400, oci.CodeManifestInvalid)
	s.do("GET", "/v2/a/manifests/arm", nil, "Accept", docM).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("GET", "/v2/a/manifests/arm", nil, "Accept", oci.MediaTypeIndex).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("GET", "/v2/a/manifests/mixed", nil, "Accept", oci.MediaTypeIndex).want(t, 200, "Content-Type", ociM)
}

func TestBlobRanges(t *testing.T) {
	s := newServer(t)
	content := []byte("0123456789")
	d := string(s.pushBlob("a", content))
	url := "/v2/a/blobs/" + d
	for _, c := range []struct{ asked, got, body string }{
		{"bytes=0-0", "bytes 0-0/10", "0"},
		{"bytes=3-", "bytes 3-9/10", "3456789"},
		{"bytes=2-4", "bytes 2-4/10", "234"},
		{"bytes=8-20", "bytes 8-9/10", "89"},
		{"bytes=-3", "bytes 7-9/10", "789"},
	} {
		got := s.do("GET", url, nil, "Range", c.asked).want(t, 206, "Content-Range", c.got, "Content-Length", strconv.Itoa(len(c.body)), "Etag", `"`+d+`"`, "Docker-Content-Digest", d)
		if string(got.body) != c.body {
			t.Errorf("%s: %q, want %q", c.asked, got.body, c.body)
		}
	}
	for _, asked := range []string{"bytes=10-", "bytes=20-30", "bytes=-0", "bytes=5-2", "bytes=x", "bytes=10-,20-30", "bytes=0-1,x"} {
		s.do("GET", url, nil, "Range", asked).wantError(t, 416, oci.CodeRangeInvalid, "Content-Range", "bytes */10", "Cache-Control", "")
	}
	s.do("GET", url, nil, "Range", "lines=1-2").want(t, 200)
	s.do("GET", "/v2/a/blobs/"+string(s.pushBlob("a", nil)), nil, "Range", "bytes=0-").want(t, 200, "Content-Length", "0")
	s.do("HEAD", url, nil, "Range", "bytes=1-2").want(t, 200, "Content-Length", "10")
	s.do("GET", url, nil, "Range", "bytes=1-2", "If-Range", `"`+d+`"`).want(t, 206)
	s.do("GET", url, nil, "Range", "bytes=1-2", "If-Range", `"x"`).want(t, 200)
	s.do("GET", url, nil, "Range", "bytes=1-2", "If-None-Match", `"`+d+`"`).want(t, 304)

	several := s.do("GET", url, nil, "Range", "bytes=0-1,8-").want(t, 206)
	_, params, err := mime.ParseMediaType(several.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(bytes.NewReader(several.body), params["boundary"])
	for _, want := range []string{"01", "89"} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(p); string(b) != want || p.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("part %q of type %s, want %q", b, p.Header.Get("Content-Type"), want)
		}
	}
}

// A client that hangs up in the middle of a chunk finds what arrived, and goes
// on from there.
func TestUploadGoesOnAfterABrokenConnection(t *testing.T) {
	s := newServer(t)
	content := bytes.Repeat([]byte("x"), 1<<20)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	s.sendPart(at, content[:1<<19]).Close()
	waitFor(t, func() bool { return len(s.logged("the client went away")) > 0 })
	at = s.do("GET", at, nil).want(t, 204, "Range", fmt.Sprintf("0-%d", 1<<19-1)).location(t)
	at = s.do("PATCH", at, content[1<<19:], "Content-Range", fmt.Sprintf("%d-%d", 1<<19, 1<<20-1)).want(t, 202).location(t)
	s.do("PUT", with(at, "digest", string(digestOf(content))), nil).want(t, 201)
	if line := s.logged("the client went away")[0]; line["http.response.status"] != int64(499) {
		t.Errorf("logged %v", line)
	}
}

// A writer that hangs does not keep its upload from a client that comes back.
func TestUploadIsTakenOverFromAHungWriter(t *testing.T) {
	s := newServer(t)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	hung := s.sendPart(at, bytes.Repeat([]byte("x"), 1<<19))
	var got answer
	var size int
	waitFor(t, func() bool {
		at = s.do("GET", at, nil).want(t, 204).location(t)
		got = s.do("PATCH", at, []byte("y"))
		return got.StatusCode == http.StatusAccepted
	})
	if _, err := fmt.Sscanf(got.Header.Get("Range"), "0-%d", &size); err != nil {
		t.Fatal(err)
	}
	_ = hung.SetReadDeadline(time.Now().Add(5 * time.Second))
	if b, err := io.ReadAll(hung); errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(b, []byte("202 Accepted")) {
		t.Errorf("the hung writer was answered %q, error %v", b, err)
	}
	content := append(bytes.Repeat([]byte("x"), size), 'y')
	s.do("PUT", with(got.location(t), "digest", string(digestOf(content))), nil).want(t, 201)
}

// Of two PATCHes of one upload at the same place one wins, and the other one is told
// why it does not.
func TestParallelPatches(t *testing.T) {
	s := newServer(t)
	content := bytes.Repeat([]byte("x"), 300_000)
	for range 20 {
		at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
		answers := make(chan answer, 2)
		for range cap(answers) {
			r, err := http.NewRequestWithContext(t.Context(), "PATCH", at, bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				resp, err := s.client.Do(r)
				if err != nil {
					t.Error(err)
					answers <- answer{}
					return
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				answers <- answer{resp, body}
			}()
		}
		won := 0
		for range cap(answers) {
			a := <-answers
			if a.Response == nil {
				t.FailNow()
			}
			switch a.StatusCode {
			case 202:
				won++
				at = a.location(t)
			case 416:
				a.wantError(t, 416, oci.CodeRangeInvalid, "Range", "*", "Location", "*")
			default:
				a.wantError(t, 404, oci.CodeBlobUploadInvalid)
				if !bytes.Contains(a.body, []byte("taken over by another request")) {
					t.Errorf("body %s", a.body)
				}
			}
		}
		if won != 1 {
			t.Fatalf("%d requests won", won)
		}
		s.do("PUT", with(at, "digest", string(digestOf(content))), nil).want(t, 201)
	}
}

// sendPart begins a PATCH of which only the first bytes come.
func (s *host) sendPart(at string, first []byte) net.Conn {
	s.t.Helper()
	conn := s.dial()
	if _, err := fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", strings.TrimPrefix(at, s.url), 2*len(first), first); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func (s *host) dial() net.Conn {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// brokenStore fails where it is told to.
type brokenStore struct {
	both
	err     error
	suspend error // of uploads
}

func TestStorageFaults(t *testing.T) {
	broken := &brokenStore{}
	s := newServer(t, func(s *setup) { broken.both, s.store = s.store, broken })
	d := string(s.pushManifest("a", "latest", oci.MediaTypeManifest, s.image("a", "x")))
	for _, c := range []struct {
		err      error
		sentence string
		status   int
		code     oci.Code
	}{
		{storage.ErrNoSpace, "no space left", 500, oci.CodeUnknown},
		{storage.ErrReadOnly, "read-only", 503, oci.CodeUnavailable},
		{storage.ErrDenied, "permission denied", 500, oci.CodeUnknown},
		{storage.ErrTemporary, storage.ErrTemporary.Error(), 503, oci.CodeUnavailable},
		{storage.ErrUnavailable, "I/O error on the storage; see the log", 500, oci.CodeUnknown},
	} {
		broken.err = fmt.Errorf("open /secret/path: %w", c.err)
		for _, r := range [][2]string{{"GET", "/v2/a/manifests/latest"}, {"GET", "/v2/a/blobs/" + d}, {"HEAD", "/v2/a/blobs/" + d}, {"POST", "/v2/a/blobs/uploads/"}, {"GET", "/v2/a/tags/list"}, {"GET", "/v2/_catalog"}, {"DELETE", "/v2/a/manifests/latest"}} {
			got := s.do(r[0], r[1], nil).wantError(t, c.status, c.code)
			if (got.Header.Get("Retry-After") != "") != (c.status == http.StatusServiceUnavailable) {
				t.Errorf("%s %s after %v: Retry-After is %q", r[0], r[1], c.err, got.Header.Get("Retry-After"))
			}
			if bytes.Contains(got.body, []byte("secret")) || r[0] != "HEAD" && !bytes.Contains(got.body, []byte(c.sentence)) {
				t.Errorf("%s %s: %s, want %q", r[0], r[1], got.body, c.sentence)
			}
		}
	}
	lines := s.logged("response completed with error")
	if n := len(lines); n != 35 {
		t.Errorf("%d lines, want one for each of 35 requests", n)
	}
	if cause := fmt.Sprint(lines[0]["err.cause"]); !strings.Contains(cause, "/secret/path") || lines[0]["http.request.id"] == "" {
		t.Errorf("the log does not tell the cause: %v", lines[0])
	}
}

// A body that breaks off on our side must look broken to the client.
func TestDownloadThatFailsIsCut(t *testing.T) {
	broken := &brokenStore{}
	s := newServer(t, func(s *setup) { broken.both, s.store = s.store, broken })
	d := string(s.pushBlob("a", bytes.Repeat([]byte("x"), 1<<20)))
	broken.err = errShort
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v2/a/blobs/"+d, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes look like a whole blob", len(b))
	}
	waitFor(t, func() bool { return len(s.logged("response cut short")) == 1 })
}

func TestPanicIsAnsweredAndLoggedOnce(t *testing.T) {
	s := newServer(t, func(s *setup) { s.store = nil })
	s.do("GET", "/v2/a/manifests/x", nil).wantError(t, 500, oci.CodeUnknown)
	if n := len(s.logs.FilterLevelExact(zap.ErrorLevel).All()); n != 1 {
		t.Errorf("%d error lines about a panic", n)
	}
	s.do("GET", "/v2/", nil).want(t, 200)
}

func TestUnreadyRegistry(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	monitor := health.Start(zap.NewNop(), health.Check{Name: "storage", Immediate: true, Interval: time.Millisecond, Func: func(context.Context) error {
		if failing.Load() {
			return errors.New("gone")
		}
		return nil
	}})
	defer monitor.Close()
	s := newServer(t, func(s *setup) { s.options.Health = monitor })
	waitFor(t, func() bool { return !monitor.Ready() })
	for _, path := range []string{"/", "/v2/", "/v2/a/manifests/x", "/nowhere"} {
		s.do("GET", path, nil).wantError(t, 503, oci.CodeUnavailable, "Retry-After", "*")
	}
	if got := s.do("GET", "/debug/health", nil).want(t, 503); string(got.body) != `{"status":"unhealthy"}` {
		t.Errorf("health page: %s", got.body)
	}
	failing.Store(false)
	waitFor(t, monitor.Ready)
	s.do("GET", "/v2/", nil).want(t, 200)
	if got := s.do("GET", "/debug/health", nil).want(t, 200); string(got.body) != `{"status":"healthy"}` {
		t.Errorf("health page: %s", got.body)
	}
	newServer(t).do("GET", "/debug/health", nil).want(t, 404)
}

// waitFor gives background work the time it needs.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it does not come")
}

func TestLogLines(t *testing.T) {
	s := newServer(t, func(s *setup) {
		s.options.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	image := s.image("a", "x")
	d := string(s.pushManifest("a", "latest", oci.MediaTypeManifest, image))
	s.do("GET", "/v2/a/manifests/latest", nil).want(t, 200)
	s.do("HEAD", "/v2/a/manifests/latest", nil).want(t, 200)
	layer := string(digestOf([]byte("layer of x")))
	s.do("GET", "/v2/a/blobs/"+layer, nil, "X-Forwarded-For", "192.0.2.7, 10.0.0.1", "User-Agent", "me/1").want(t, 200)
	s.do("POST", "/v2/b/blobs/uploads/?mount="+layer+"&from=a", nil).want(t, 201)
	s.do("POST", "/v2/b/blobs/uploads/?digest="+layer, []byte("layer of x")).want(t, 201)
	s.do("DELETE", "/v2/a/manifests/latest", nil).want(t, 202)
	s.do("GET", "/v2/a/manifests/latest", nil).want(t, 404)
	s.do("PUT", "/v2/a/manifests/latest", []byte("{"), "Content-Type", oci.MediaTypeManifest).want(t, 400)

	for message, want := range map[string]int{"push": 4, "pull": 2, "mount": 1, "delete": 1, "response completed with error": 2} {
		if got := len(s.logged(message)); got != want {
			t.Errorf("%d lines %q, want %d", got, message, want)
		}
	}
	pull := s.logged("pull")[1]
	for key, want := range map[string]any{
		"vars.name": "a", "vars.digest": layer, "http.request.method": "GET", "http.request.remoteaddr": "192.0.2.7",
		"http.request.useragent": "me/1", "http.response.status": int64(200), "http.response.written": int64(10),
	} {
		if pull[key] != want {
			t.Errorf("pull: %s is %v, want %v", key, pull[key], want)
		}
	}
	if first := s.logged("pull")[0]; first["vars.digest"] != d || first["vars.reference"] != "latest" {
		t.Errorf("pull of a manifest: %v", first)
	}
	if e := s.logged("response completed with error")[1]; e["err.code"] != "MANIFEST_INVALID" || !strings.Contains(fmt.Sprint(e["err.message"]), "not valid JSON") {
		t.Errorf("error: %v", e)
	}
	for _, e := range s.logs.All() {
		if line := fmt.Sprint(e.ContextMap()); strings.Contains(line, "_state") {
			t.Errorf("a line with an upload's state: %s", line)
		}
	}
}
