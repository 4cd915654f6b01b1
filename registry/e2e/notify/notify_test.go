package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// watcher is an HTTP server that receives events.
type watcher struct {
	*httptest.Server
	status atomic.Int64
	tries  atomic.Int64

	mu     sync.Mutex
	events []map[string]any
	heads  []http.Header
}

func newWatcher(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{}
	w.status.Store(200)
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *watcher) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var envelope struct{ Events []map[string]any }
	if err != nil || json.Unmarshal(body, &envelope) != nil {
		rw.WriteHeader(400)
		return
	}
	w.tries.Add(1)
	status := int(w.status.Load())
	if status == 200 {
		w.mu.Lock()
		w.events = append(w.events, envelope.Events...)
		w.heads = append(w.heads, r.Header)
		w.mu.Unlock()
	}
	rw.WriteHeader(status)
}

// take returns what arrived until nothing more does, and forgets it.
func (w *watcher) take() []map[string]any {
	for count := -1; ; time.Sleep(300 * time.Millisecond) {
		n := w.count()
		if n == count {
			return w.drain()
		}
		count = n
	}
}

// drain returns what has arrived, and forgets it.
func (w *watcher) drain() []map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// count is the number of events that arrived.
func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.events)
}

// tags are those of the events that arrived.
func (w *watcher) tags() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, e := range w.events {
		if tag, ok := e["target"].(map[string]any)["tag"].(string); ok {
			all = append(all, tag)
		}
	}
	return all
}

const watchedConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: "%ROOT%"}
  delete: {enabled: true}
auth: {htpasswd: {realm: r, path: "%HTPASSWD%"}}
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
notifications:
  events: {includereferences: true, version: %VERSION%}
  endpoints:
  - name: watcher
    url: "%URL%"
    headers: {X-Token: [abc]}
    timeout: 5s
`

// startWatched serves with a registry that tells w.
func startWatched(t *testing.T, command, version string, w *watcher) *harness.Process {
	t.Helper()
	dir, addr := t.TempDir(), programtest.FreeAddr(t)
	htpasswd := filepath.Join(dir, "htpasswd")
	harness.WriteFile(t, htpasswd, []byte("ada:"+bcryptOfSecret+"\n"))
	config := filepath.Join(dir, "config.yml")
	harness.WriteFile(t, config, []byte(strings.NewReplacer("%ROOT%", dir+"/root", "%HTPASSWD%", htpasswd, "%ADDR%", addr, "%VERSION%", version, "%URL%", w.URL).Replace(watchedConfig)))
	cmd := exec.Command(command, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	if command == harness.Binary { // distribution believes everybody
		cmd.Env = append(cmd.Env, "REGISTRY_HTTP_TRUSTEDPROXIES=[127.0.0.1, 10.0.0.0/8]")
	}
	return harness.Start(t, addr, cmd)
}

// bcryptOfSecret is "secret".
const bcryptOfSecret = "$2y$05$VIuj37mDWOH4mpPUlFH7YOB.L8TYagQI8ZawVzhTZXE6I5NElamNy"

// TestEventsAreThoseOfDistribution has the same clients do the same with us and
// with distribution, and compares all events, field by field.
func TestEventsAreThoseOfDistribution(t *testing.T) {
	t.Parallel() // it waits most of its time
	compareEvents(t, harness.Distribution2, "v1")
}

func TestFull_EventsAreThoseOfDistribution3(t *testing.T) {
	t.Parallel()
	compareEvents(t, harness.Distribution3, "v2")
}

func compareEvents(t *testing.T, peer harness.Peer, version string) {
	ours, theirs := newWatcher(t), newWatcher(t)
	us, them := startWatched(t, harness.Binary, version, ours), startWatched(t, programtest.Tool(t, peer.Tool), version, theirs)
	for _, step := range eventSteps(t, version) {
		step.do(t, us.Addr)
		step.do(t, them.Addr)
		waitSame(ours, theirs, step)
		got, want := plain(t, ours.drain(), us.Addr), plain(t, theirs.drain(), them.Addr)
		if len(want) == 0 && !step.quiet {
			t.Fatalf("%s: distribution tells nothing", step.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\n\nwant %s", step.name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	if got, want := ours.heads[0], theirs.heads[0]; got.Get("Content-Type") != want.Get("Content-Type") || got.Get("X-Token") != "abc" {
		t.Errorf("headers %v, want %v", got, want)
	}
}

// waitSame waits until as many events of the step have arrived at both watchers, and no more
// follow; it gives up after ten seconds.
func waitSame(ours, theirs *watcher, step eventStep) {
	last := -1
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		n := ours.count()
		if n == last && n == theirs.count() && (n > 0 || step.quiet) {
			return
		}
		last = n
	}
}

const dockerList = "application/vnd.docker.distribution.manifest.list.v2+json"

type eventStep struct {
	name  string
	do    func(t *testing.T, addr string)
	quiet bool // nothing is told
}

// eventSteps are the steps of the clients.
func eventSteps(t *testing.T, version string) []eventStep {
	img, other := harness.NewImage(t, 31, 2, 20_000), harness.NewImage(t, 32, 1, 10_000)
	idx := harness.NewIndex(t, img, other)
	single, multi := img.Layout(t, "v1"), idx.Layout(t, "v1")
	crane := func(args ...string) func(*testing.T, string) {
		return func(t *testing.T, addr string) {
			t.Helper()
			home := t.TempDir()
			harness.WriteFile(t, filepath.Join(home, "config.json"), []byte(`{"auths":{"`+addr+`":{"auth":"YWRhOnNlY3JldA=="}}}`))
			var with []string
			for _, a := range args {
				with = append(with, strings.ReplaceAll(a, "ADDR", addr))
			}
			if out, err := harness.TryTool(t, []string{"DOCKER_CONFIG=" + home}, "crane", append([]string{"--insecure"}, with...)...); err != nil {
				t.Fatalf("crane %v: %v\n%s", with, err, out)
			}
		}
	}
	raw := func(method, path string, status int, header ...string) func(*testing.T, string) {
		return func(t *testing.T, addr string) {
			t.Helper()
			h := http.Header{"Accept": harness.AcceptAll["Accept"], "User-Agent": {"by hand"}, "Authorization": {"Basic YWRhOnNlY3JldA=="}}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			if resp, body := harness.Fetch(t, method, "http://"+addr+path, h, nil); resp.StatusCode != status {
				t.Fatalf("%s %s: %s %s", method, path, resp.Status, body)
			}
		}
	}
	layer := img.BlobList(t)[0]
	steps := []eventStep{
		{"push an image", crane("push", single, "ADDR/a/image:v1"), false},
		{"push it again", crane("push", single, "ADDR/a/image:v2"), false},
		{"push an index", crane("push", multi, "ADDR/a/index:v1"), false},
		{"pull", crane("pull", "--format=oci", "ADDR/a/image:v1", t.TempDir()), false},
		{"copy, which mounts", crane("copy", "ADDR/a/image:v1", "ADDR/b/copy:v1"), false},
		{"head a manifest", raw("HEAD", "/v2/a/image/manifests/v1", 200), false},
		{"get it by digest", raw("GET", "/v2/a/image/manifests/"+img.Manifest, 200), false},
		{"an unchanged manifest", raw("GET", "/v2/a/image/manifests/v1", 304, "If-None-Match", `"`+img.Manifest+`"`), true},
		{"behind a proxy", raw("GET", "/v2/a/image/manifests/v1", 200, "X-Forwarded-For", "203.0.113.9, 10.0.0.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "images.example.org"), false},
		{"a list for an old client", raw("GET", "/v2/a/index/manifests/v1", 200, "Accept", "application/vnd.oci.image.index.v1+json"), false},
		{"push a list by hand", func(t *testing.T, addr string) {
			t.Helper()
			h := http.Header{"Content-Type": {dockerList}, "User-Agent": {"by hand"}, "Authorization": {"Basic YWRhOnNlY3JldA=="}}
			list := `{"schemaVersion":2,"mediaType":"` + dockerList + `","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + img.Manifest +
				fmt.Sprintf(`","size":%d,"platform":{"architecture":"amd64","os":"linux","variant":"v2"}}]}`, len(img.Blobs[img.Manifest]))
			if resp, body := harness.Fetch(t, "PUT", "http://"+addr+"/v2/a/image/manifests/list", h, strings.NewReader(list)); resp.StatusCode != 201 {
				t.Fatalf("PUT: %s %s", resp.Status, body)
			}
		}, false},
		{"an image out of it for an old client", raw("GET", "/v2/a/image/manifests/list", 200, "Accept", "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"), false},
		{"skopeo", func(t *testing.T, addr string) {
			t.Helper()
			ref := "docker://" + addr + "/a/skopeo:v1"
			harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds=ada:secret", "oci:"+single+":v1", ref)
			harness.RunTool(t, "skopeo", "--insecure-policy", "inspect", "--tls-verify=false", "--creds=ada:secret", ref)
		}, false},
		{"get a blob", raw("GET", "/v2/a/image/blobs/"+layer, 200), false},
		{"head it", raw("HEAD", "/v2/a/image/blobs/"+layer, 200), false},
		{"a part of it", raw("GET", "/v2/a/image/blobs/"+layer, 206, "Range", "bytes=1-5"), false},
		{"a blob that is not there", raw("GET", "/v2/b/image/blobs/"+layer, 404), true},
		{"tags", raw("GET", "/v2/a/image/tags/list", 200), true},
		{"delete a blob", raw("DELETE", "/v2/b/copy/blobs/"+layer, 202), false},
		{"delete a manifest with two tags", raw("DELETE", "/v2/a/image/manifests/"+img.Manifest, 202), false},
	}
	if version == "v2" { // 2.8 cannot
		steps = append(steps, eventStep{"delete a tag", raw("DELETE", "/v2/a/index/manifests/v1", 202), false})
	}
	return steps
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// plain checks what differs from event to event, replaces it, and sorts: clients
// do several things at once.
func plain(t *testing.T, events []map[string]any, addr string) []string {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	ids := map[string]bool{}
	var all []string
	for _, e := range events {
		request, source := e["request"].(map[string]any), e["source"].(map[string]any)
		id := e["id"].(string)
		at, err := time.Parse(time.RFC3339Nano, e["timestamp"].(string))
		if !uuid.MatchString(id) || ids[id] || err != nil || time.Since(at).Abs() > time.Minute || !uuid.MatchString(source["instanceID"].(string)) || request["id"] == "" {
			t.Errorf("odd event: %v", e)
		}
		ids[id] = true
		e["id"], e["timestamp"], source["instanceID"], request["id"] = "", "", "", ""
		if from, _, err := net.SplitHostPort(request["addr"].(string)); err == nil && from == host {
			request["addr"] = "client"
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.NewReplacer(addr, "ADDR", ":"+port, ":PORT").Replace(string(b)))
	}
	slices.Sort(all)
	return all
}

// notifying returns the environment of a registry that sends w all events except
// those of pulls and blobs.
func notifying(w *watcher, more string) []string {
	return []string{`REGISTRY_NOTIFICATIONS_ENDPOINTS=[{name: watcher, url: "` + w.URL + `", timeout: 1s, backoff: 100ms, threshold: 3, ` +
		`ignore: {actions: [pull], mediatypes: [application/octet-stream]}` + more + `}]`}
}

// The event of an acknowledged push is sent at least once, always under one id,
// however often the registry is killed and whatever the receiver answers.
func TestEventsSurviveKill(t *testing.T) {
	root, addr := t.TempDir(), programtest.FreeAddr(t)
	w := newWatcher(t)
	img := harness.NewImage(t, 33, 1, 1000)
	p := harness.Start(t, addr, harness.RegistryCommand(addr, root, notifying(w, "")...))
	img.Push(t, addr, "killed", "first")
	p.Kill()

	manifest := img.Blobs[img.Manifest]
	var mu sync.Mutex
	acked := map[string]bool{"first": true}
	pushed := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acked)
	}
	const kills = 30
	for round := range kills {
		w.status.Store([]int64{200, 500, 200, 503}[round%4])
		p := harness.Start(t, addr, harness.RegistryCommand(addr, root, notifying(w, "")...))
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for writer := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					tag := fmt.Sprintf("t%d-%d-%d", round, writer, i)
					if tryPutManifest(ctx, addr, "killed", tag, manifest, img.MediaType(t)) == http.StatusCreated {
						mu.Lock()
						acked[tag] = true
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(20+7*round%60) * time.Millisecond)
		for end := time.Now().Add(time.Minute); pushed() <= round+1 && time.Now().Before(end); { // the machine is busy
			time.Sleep(time.Millisecond)
		}
		p.Kill()
		cancel()
		writers.Wait()
	}
	w.status.Store(200)
	harness.Start(t, addr, harness.RegistryCommand(addr, root, notifying(w, "")...))
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		arrived := map[string]bool{}
		for _, tag := range w.tags() {
			arrived[tag] = true
		}
		missing := 0
		for tag := range acked {
			if !arrived[tag] {
				missing++
			}
		}
		if missing == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	tagOf, events := map[string]string{}, w.take()
	for _, e := range events {
		tag := e["target"].(map[string]any)["tag"].(string)
		if before, known := tagOf[e["id"].(string)]; known && before != tag {
			t.Errorf("the id %v is that of %s and of %s", e["id"], before, tag)
		}
		tagOf[e["id"].(string)] = tag
	}
	told := slices.Collect(maps.Values(tagOf))
	for tag := range acked {
		if !slices.Contains(told, tag) {
			t.Errorf("no event for %s, which was acknowledged", tag)
		}
	}
	t.Logf("%d kills, %d acknowledged pushes, %d events, %d of them twice", kills, len(acked), len(events), len(events)-len(tagOf))
	if len(acked) < kills {
		t.Errorf("only %d pushes in %d rounds; the test proves little", len(acked), kills)
	}
}

// tryPutManifest returns the status, 0 without an answer.
func tryPutManifest(ctx context.Context, addr, repo, tag string, manifest []byte, mediaType string) int {
	req, err := http.NewRequestWithContext(ctx, "PUT", "http://"+addr+"/v2/"+repo+"/manifests/"+tag, strings.NewReader(string(manifest)))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// With no room for its event a push fails, and the next are refused before anything
// changes. Pulls go on, and once there is room, all that happened is sent.
func TestEventsDiskFull(t *testing.T) {
	root, queue := t.TempDir(), programtest.Mount(t, "tmpfs", "size=2m")
	w := newWatcher(t)
	p := harness.StartRegistry(t, root, append(notifying(w, ""), "REGISTRY_NOTIFICATIONS_QUEUE_DIRECTORY="+queue)...)
	img := harness.NewImage(t, 36, 1, 1000)
	img.Push(t, p.Addr, "full", "v0")
	w.status.Store(500) // else each event leaves its room to the next
	filler := filepath.Join(queue, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	statuses := map[int]int{}
	put := func(tag string) int {
		return tryPutManifest(t.Context(), p.Addr, "full", tag, img.Blobs[img.Manifest], img.MediaType(t))
	}
	last := ""
	for i := 0; statuses[503] < 3 && i < 200; i++ { // the queue's file has room for some
		last = fmt.Sprintf("v%d", i+1)
		statuses[put(last)]++
	}
	if statuses[500] != 1 || statuses[503] != 3 {
		t.Fatalf("answers: %v", statuses)
	}
	if resp, _ := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/full/manifests/"+last, harness.AcceptAll, nil); resp.StatusCode != 404 {
		t.Errorf("a push that was refused with 503 is there: %s", resp.Status)
	}
	img.Pulls(t, p.Addr, "full", "v0")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if status := put("after"); status != 201 {
		t.Errorf("a push after there is room: %d", status)
	}
	w.status.Store(200)
	want := 1 + statuses[201] + statuses[500] + 1 // v0, and "after"
	harness.Eventually(t, "the events have arrived", func() bool { return len(w.tags()) >= want })
	if told := w.take(); len(told) != want {
		t.Errorf("%d events, want %d", len(told), want)
	}
}

// On a read-only volume, events of pulls wait in memory. On a full one, the events of
// deletions use room that the queue's file has.
func TestEventsOnSickVolumes(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=20m")
	root, w := filepath.Join(dir, "root"), newWatcher(t)
	env := []string{`REGISTRY_NOTIFICATIONS_ENDPOINTS=[{name: watcher, url: "` + w.URL + `"}]`}
	p := harness.StartRegistry(t, root, env...)
	img := harness.NewImage(t, 37, 1, 1000)
	img.Push(t, p.Addr, "sick", "v1")
	img.Push(t, p.Addr, "sick", "v2")
	w.take()
	if err := p.Stop(t); err != nil {
		t.Fatal(err)
	}
	harness.RemountReadOnly(t, dir)
	p = harness.StartRegistry(t, root, env...)
	img.Pulls(t, p.Addr, "sick", "v1")
	if told := w.take(); len(told) == 0 || told[0]["action"] != "pull" || !strings.Contains(p.Output(), "wait in memory") {
		t.Errorf("events: %v; %s", told, p.Output())
	}
	if err := p.Stop(t); err != nil {
		t.Fatal(err)
	}

	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "filler"))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	p = harness.StartRegistry(t, root, env...)
	if resp, body := harness.Fetch(t, "DELETE", "http://"+p.Addr+"/v2/sick/manifests/v2", nil, nil); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("DELETE on a full volume: %s %s", resp.Status, body)
	}
	told := w.take()
	if len(told) != 1 || told[0]["action"] != "delete" {
		t.Errorf("events: %v", told)
	}
	if strings.Contains(p.Output(), "wait in memory") {
		t.Errorf("the queue is in memory: %s", p.Output())
	}
}
