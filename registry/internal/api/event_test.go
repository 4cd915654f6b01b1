package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/membudget"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
)

// listener is an endpoint that notes what it is told, in short.
type listener struct {
	mu   sync.Mutex
	told []string
}

func (l *listener) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var e struct {
		Events []struct {
			Action string
			Target struct{ MediaType, Digest, Repository, FromRepository, Tag, URL, Warning string }
			Actor  struct{ Name string }
		}
	}
	json.Unmarshal(body, &e)
	t := e.Events[0].Target
	line := strings.Join([]string{e.Events[0].Action, t.Repository, t.FromRepository, t.Tag, t.MediaType, t.Digest}, "|")
	if t.Warning != "" {
		line += "|" + t.Warning
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, line)
}

// hears waits for the lines and forgets them.
func (l *listener) hears(t *testing.T, what string, want ...string) {
	t.Helper()
	var got string
	for range 400 {
		l.mu.Lock()
		got = strings.Join(l.told, "\n")
		l.mu.Unlock()
		if got == strings.Join(want, "\n") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, strings.Join(want, "\n"))
	}
	l.mu.Lock()
	l.told = nil
	l.mu.Unlock()
}

func newListened(t *testing.T, options ...func(*setup)) (*host, *listener) {
	t.Helper()
	l := &listener{}
	receiver := httptest.NewServer(l)
	t.Cleanup(receiver.Close)
	n, err := notify.New(notify.Options{
		Endpoints: []notify.Endpoint{{Name: "l", URL: receiver.URL, Timeout: 5 * time.Second, Threshold: 3, Backoff: time.Second}},
		Directory: t.TempDir(), MaxSize: 1 << 20, Version: notify.V1, Log: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return newServer(t, append(options, func(s *setup) { s.options.Notify = n })...), l
}

// What distribution has no request for, and what it has no event for.
func TestEventsOfOurOwn(t *testing.T) {
	s, l := newListened(t)
	const octets = "application/octet-stream"
	blob := string(digestOf([]byte("{}")))
	s.do("POST", "/v2/a/blobs/uploads/?digest="+blob, []byte("{}")).want(t, 201)
	l.hears(t, "a single POST", "push|a|||"+octets+"|"+blob)

	manifest := []byte(`{"schemaVersion":2,"config":` + describe("x", oci.Digest(blob), 2) + `,"layers":[]}`)
	d := string(digestOf(manifest))
	s.do("PUT", "/v2/a/manifests/"+d+"?tag=one&tag=two", manifest, "Content-Type", oci.MediaTypeManifest).want(t, 201)
	l.hears(t, "several tags", "push|a||one|"+oci.MediaTypeManifest+"|"+d, "push|a||two|"+oci.MediaTypeManifest+"|"+d)

	s.do("POST", "/v2/c/blobs/uploads/?mount="+blob+"&from=a", nil).want(t, 201)
	l.hears(t, "a mount", "mount|c|a||"+octets+"|"+blob)

	s.do("DELETE", "/v2/a/manifests/one", nil).want(t, 202)
	l.hears(t, "a tag", "delete|a||one||")
	s.do("DELETE", "/v2/a/_slipway/repository", nil).want(t, 202)
	l.hears(t, "a repository", "delete|a||||")

	s.do("PUT", "/v2/c/manifests/v1", manifest, "Content-Type", oci.MediaTypeManifest).want(t, 201)
	l.hears(t, "a tag again", "push|c||v1|"+oci.MediaTypeManifest+"|"+d)
}

// What fails, or only looks, is not told.
func TestNoEvents(t *testing.T) {
	s, l := newListened(t)
	blob := string(digestOf([]byte("{}")))
	s.do("POST", "/v2/a/blobs/uploads/?digest="+blob, []byte("[]")).want(t, 400)
	s.do("PUT", "/v2/a/manifests/v1", []byte("{}"), "Content-Type", oci.MediaTypeManifest).want(t, 400)
	s.do("DELETE", "/v2/a/manifests/v1", nil).want(t, 404)
	s.do("DELETE", "/v2/a/manifests/"+blob, nil).want(t, 404)
	s.do("DELETE", "/v2/a/blobs/"+blob, nil).want(t, 404)
	s.do("DELETE", "/v2/a/_slipway/repository", nil).want(t, 404)
	s.do("GET", "/v2/a/manifests/v1", nil).want(t, 404)
	s.do("HEAD", "/v2/a/blobs/"+blob, nil).want(t, 404)
	s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202)
	s.do("GET", "/v2/_catalog", nil).want(t, 200)
	s.do("POST", "/v2/a/blobs/uploads/?digest="+blob, []byte("{}")).want(t, 201)
	l.hears(t, "the one thing that happened", "push|a|||application/octet-stream|"+blob)
	s.do("GET", "/v2/a/blobs/"+blob, nil, "Range", "bytes=9-").want(t, 416)
	s.do("GET", "/v2/a/blobs/"+blob, nil, "If-Match", `"x"`).want(t, 412)
	s.do("GET", "/v2/a/blobs/"+blob, nil).want(t, 200)
	l.hears(t, "one pull", "pull|a|||application/octet-stream|"+blob)
}

// A large manifest is pulled once there was room for the answer, with the list that it was taken from.
func TestEventsOfLargeManifests(t *testing.T) {
	s, l := newListened(t)
	blob := digestOf([]byte("{}"))
	s.do("POST", "/v2/a/blobs/uploads/?digest="+string(blob), []byte("{}")).want(t, 201)
	image := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeDockerManifest + `","config":` + describe("x", blob, 2) + `,"layers":[]` + strings.Repeat(" ", smallBody) + `}`)
	d := s.pushManifest("a", string(digestOf(image)), oci.MediaTypeDockerManifest, image)
	list := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeDockerList + `","manifests":[` + describe(oci.MediaTypeDockerManifest, d, len(image), `"platform":{"os":"linux","architecture":"amd64"}`) + `]}`)
	from := s.pushManifest("a", "v1", oci.MediaTypeDockerList, list)
	pushed := func(tag, mediaType string, d oci.Digest) string {
		return strings.Join([]string{"push", "a", "", tag, mediaType, string(d)}, "|")
	}
	l.hears(t, "pushes", pushed("", "application/octet-stream", blob), pushed("", oci.MediaTypeDockerManifest, d), pushed("v1", oci.MediaTypeDockerList, from))

	s.api.answers = membudget.New(1<<20, 1<<20)
	release, err := s.api.answers.Acquire(t.Context(), "another client", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/v2/a/manifests/v1", nil)
	r.Header.Set("Accept", oci.MediaTypeDockerManifest)
	func() {
		defer func() {
			if ended := recover(); ended != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				t.Errorf("a client that hangs up while there is no room: %v", ended)
			}
		}()
		s.api.ServeHTTP(httptest.NewRecorder(), r)
	}()
	release()
	got := s.do("GET", "/v2/a/manifests/v1", nil, "Accept", oci.MediaTypeDockerManifest).want(t, 200, "Docker-Content-Digest", string(d))
	if !bytes.Equal(got.body, image) {
		t.Error("the manifest comes back changed")
	}
	l.hears(t, "one pull", "pull|a||v1|"+oci.MediaTypeDockerList+"|"+string(from), "pull|a|||"+oci.MediaTypeDockerManifest+"|"+string(d))
}
