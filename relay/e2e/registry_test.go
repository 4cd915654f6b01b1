package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// What CNCF distribution posts by itself when crane pushes to it is read in the room.
func TestEventsOfDistribution2(t *testing.T) { testEventsOfDistribution(t, "docker-registry", false) }

func TestFull_EventsOfDistribution3(t *testing.T) { testEventsOfDistribution(t, "distribution3", true) }

func testEventsOfDistribution(t *testing.T, program string, deletesTags bool) {
	s := newSite(t)
	s.start()
	a := s.application("registry", "")
	addr := s.registry(programtest.Tool(t, program), a.token, "")
	layer := filepath.Join(s.dir, "layer.tar")
	s.must(os.WriteFile(layer, layerOf(t, 3_000_000), 0o600))
	s.crane("append", "-f", layer, "-t", addr+"/team/hello:1")
	s.crane("index", "append", "-m", addr+"/team/hello:1", "-t", addr+"/team/hello:all")
	s.crane("copy", addr+"/team/hello:1", addr+"/other:latest")
	s.crane("pull", addr+"/team/hello:1", filepath.Join(s.dir, "pulled.tar"))
	pushed := `sha256:[0-9a-f]{12}, %s, pushed to ` + regexp.QuoteMeta(addr)
	want := []string{
		`^team/hello:1 pushed\n\n` + fmt.Sprintf(pushed, `3\.0 MB`) + "$",
		`^team/hello:all pushed\n\n` + fmt.Sprintf(pushed, `for .*`) + "$",
		`^other:latest pushed\n\n` + fmt.Sprintf(pushed, `3\.0 MB`) + "$",
	}
	if deletesTags {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodDelete, "http://"+addr+"/v2/other/manifests/latest", nil)
		s.must(err)
		resp, err := s.http.Do(req)
		s.must(err)
		resp.Body.Close()
		want = append(want, `^other:latest deleted\n\ndeleted from `)
	}
	s.eventually("all events are read", func() bool { return len(s.bodies(a.room)) >= len(want) })
	got := s.bodies(a.room)
	for i, form := range want {
		if i >= len(got) || !regexp.MustCompile(form).MatchString(got[i]) {
			t.Errorf("message %d is not %s: %q", i, form, got)
		}
	}
	if len(got) > len(want) {
		t.Errorf("more messages than expected: %q", got)
	}
}

// collectsPushes: a night of pushes to Slipway's registry is one message per repository in the room that `relay setup` has made.
func (g *ground) collectsPushes() {
	g.Helper()
	addr := g.registry(registryBinary(g.T), g.secret("relay_token"), "secret_file: "+filepath.Join(g.secrets, "hook_secret"))
	put := func(url, kind, body string) {
		req, err := http.NewRequestWithContext(g.ctx, http.MethodPut, url, strings.NewReader(body))
		g.must(err)
		req.Header.Set("Content-Type", kind)
		resp, err := g.http.Do(req)
		g.must(err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			g.Fatalf("PUT %s: %s", url, resp.Status)
		}
	}
	const pushes = 300
	repositories := []string{"team/api", "team/web", "tools"}
	for i := range pushes {
		put(fmt.Sprintf("http://%s/v2/%s/manifests/%d", addr, repositories[i%3], i), "application/vnd.oci.image.index.v1+json",
			fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[],"annotations":{"build":"%d"}}`, i))
	}
	person, err := g.hs.Login(g.ctx, g.person, g.secret("person_password"))
	g.must(err)
	var joined struct {
		Rooms []string `json:"joined_rooms"`
	}
	g.must(person.Call(g.ctx, "GET", "/_matrix/client/v3/joined_rooms", nil, &joined))
	messages, last := 0, map[string]string{}
	read := func() bool {
		events, err := person.Messages(g.ctx, joined.Rooms[0], "m.room.message")
		g.must(err)
		messages = 0
		clear(last)
		for _, e := range events {
			body, edit := strings.CutPrefix(e.Field("body"), "* ")
			name, _, _ := strings.Cut(body, ":")
			if !slices.Contains(repositories, name) {
				continue
			}
			if !edit {
				messages++
			}
			last[name] = body
		}
		return strings.Count(fmt.Sprint(last), ": 100 messages\n\nThe last 10:\n") == 3
	}
	g.within(2*time.Minute, "all pushes are counted", read)
	if messages != 3 || len(last) != 3 {
		g.Errorf("%d messages: %q", messages, last)
	}
	if line := regexp.MustCompile(`\ntools:299 pushed: sha256:[0-9a-f]{12}, for several platforms, pushed to ` + regexp.QuoteMeta(addr) + "$"); !line.MatchString(last["tools"]) {
		g.Errorf("%q", last["tools"])
	}
}

// registryBinary is the registry that SLIPWAY_E2E_REGISTRY names, or one that it builds.
func registryBinary(t *testing.T) string {
	if path := os.Getenv("SLIPWAY_E2E_REGISTRY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "registry")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "slipway/registry/cmd/registry").CombinedOutput(); err != nil {
		t.Fatalf("build the registry: %v\n%s", err, out)
	}
	return path
}

// registry runs a registry that notifies the site's relay, and returns its address. more are settings of the endpoint.
func (s *site) registry(binary, token, more string) string {
	s.Helper()
	addr, file := programtest.FreeAddr(s.T), filepath.Join(s.dir, "registry.yml")
	s.must(os.WriteFile(file, fmt.Appendf(nil, `version: 0.1
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http: {addr: %q, secret: shared-by-all-replicas}
notifications:
  events: {includereferences: true}
  endpoints:
    - {name: relay, url: "%s/hook/registry", headers: {Authorization: [Bearer %s]}, timeout: 5s, threshold: 3, backoff: 1s, %s}
`, filepath.Join(s.dir, "registry"), addr, s.url, token, more), 0o600))
	cmd := exec.CommandContext(s.ctx, binary, "serve", file)
	cmd.Env = append(os.Environ(), s.env...)
	programtest.Start(s.T, cmd, "http://"+addr+"/v2/")
	return addr
}

func (s *site) crane(args ...string) {
	s.Helper()
	if out, err := exec.CommandContext(s.ctx, programtest.Tool(s.T, "crane"), args...).CombinedOutput(); err != nil {
		s.Fatalf("crane %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// layerOf returns a layer with one incompressible file of n bytes.
func layerOf(t *testing.T, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	for i, x := 0, uint32(1); i < n; i++ {
		x = x*1664525 + 1013904223
		content[i] = byte(x >> 24)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(n)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
