package mirror

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// startMirror serves root as a pull-through cache of the registry at upstream, which the
// environment alone says.
func startMirror(t testing.TB, upstream, root string, env ...string) *harness.Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return harness.Start(t, addr, mirrorCommand(addr, upstream, root, env...))
}

func mirrorCommand(addr, upstream, root string, env ...string) *exec.Cmd {
	return harness.RegistryCommand(addr, root, append([]string{"REGISTRY_PROXY_REMOTEURL=http://" + upstream}, env...)...)
}

// A mirror serves what the upstream has, takes no pushes, and goes on when the upstream is
// gone, also after a restart.
func TestMirror(t *testing.T) {
	t.Run("distribution", func(t *testing.T) { mirrors(t, harness.StartPeer(t, harness.Distribution2.Tool, t.TempDir())) })
	t.Run("slipway", func(t *testing.T) { mirrors(t, harness.StartRegistry(t, t.TempDir())) })
}

func TestFull_Mirror_OfDistribution3(t *testing.T) {
	mirrors(t, harness.StartPeer(t, harness.Distribution3.Tool, t.TempDir()))
}

func mirrors(t *testing.T, up *harness.Process) {
	img := harness.NewImage(t, 3, 3, 200_000)
	index := harness.NewIndex(t, img, harness.NewImage(t, 4, 2, 20_000))
	img.Push(t, up.Addr, "team/app", "v1")
	index.Push(t, up.Addr, "team/many", "v1")
	root := t.TempDir()
	mirror := startMirror(t, up.Addr, root)
	for range 2 {
		img.Pulls(t, mirror.Addr, "team/app", "v1")
		index.Pulls(t, mirror.Addr, "team/many", "v1")
	}
	for _, request := range []string{"POST blobs/uploads/", "PUT manifests/v2", "DELETE manifests/" + img.Manifest, "DELETE manifests/v1"} {
		method, path, _ := strings.Cut(request, " ")
		if resp, body := harness.Fetch(t, method, "http://"+mirror.Addr+"/v2/team/app/"+path, nil, nil); resp.StatusCode != 405 || !strings.Contains(string(body), "UNSUPPORTED") {
			t.Errorf("%s: %s %s", request, resp.Status, body)
		}
	}
	if _, body := harness.Fetch(t, "GET", "http://"+mirror.Addr+"/v2/team/app/tags/list", nil, nil); harness.JoinTags(t, body) != "v1" {
		t.Errorf("tags: %s", body)
	}
	up.Kill()
	img.Pulls(t, mirror.Addr, "team/app", "v1")
	mirror.Stop(t)
	mirror = startMirror(t, up.Addr, root)
	index.Pulls(t, mirror.Addr, "team/many", "v1")
	resp, _ := harness.Fetch(t, "GET", "http://"+mirror.Addr+"/v2/team/app/manifests/v1", harness.AcceptAll, nil)
	if !strings.HasPrefix(resp.Header.Get("Warning"), "111 ") {
		t.Errorf("Warning: %q", resp.Header.Get("Warning"))
	}
	if resp, body := harness.Fetch(t, "GET", "http://"+mirror.Addr+"/v2/team/none/manifests/v1", harness.AcceptAll, nil); resp.StatusCode != 502 {
		t.Errorf("not cached: %s %s", resp.Status, body)
	}
}

// The volume of a cache goes from distribution to this registry and back, as it lies.
func TestMirror_VolumeOfDistribution(t *testing.T) { volumeOf(t, harness.Distribution2) }

func TestFull_Mirror_VolumeOfDistribution3(t *testing.T) { volumeOf(t, harness.Distribution3) }

func volumeOf(t *testing.T, distribution harness.Peer) {
	up := harness.StartPeer(t, distribution.Tool, t.TempDir())
	theirs, ours := harness.NewImage(t, 5, 2, 100_000), harness.NewImage(t, 6, 2, 100_000)
	theirs.Push(t, up.Addr, "theirs", "v1")
	ours.Push(t, up.Addr, "ours", "v1")
	root := t.TempDir()
	startDistributionMirror := func() *harness.Process {
		addr := programtest.FreeAddr(t)
		cmd := exec.Command(programtest.Tool(t, distribution.Tool), "serve", harness.WritePeerConfig(t, addr, root))
		cmd.Env = []string{"OTEL_TRACES_EXPORTER=none", "REGISTRY_PROXY_REMOTEURL=http://" + up.Addr}
		return harness.Start(t, addr, cmd)
	}
	peer := startDistributionMirror()
	theirs.Pulls(t, peer.Addr, "theirs", "v1")
	// It stores what it streams a little later, and links it last.
	for d := range theirs.Blobs {
		for range 1000 {
			if found, _ := filepath.Glob(filepath.Join(root, "docker/registry/v2/repositories/theirs/_layers/sha256", strings.TrimPrefix(d, "sha256:"), "link")); len(found) > 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	peer.Stop(t)
	mirror := startMirror(t, up.Addr, root)
	ours.Pulls(t, mirror.Addr, "ours", "v1")
	mirror.Stop(t)
	peer = startDistributionMirror()
	up.Kill()
	ours.Pulls(t, peer.Addr, "ours", "v1")
	peer.Stop(t)
	mirror = startMirror(t, up.Addr, root)
	theirs.Pulls(t, mirror.Addr, "theirs", "v1")
}

// counter stands before an upstream and counts what is fetched from it.
type counter struct {
	*httptest.Server
	next *httputil.ReverseProxy

	mu   sync.Mutex
	gets map[string]int
}

func startCounter(t testing.TB, upstream string) *counter {
	t.Helper()
	c := &counter{next: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: upstream}), gets: map[string]int{}}
	c.next.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if r.Method == http.MethodGet {
		c.gets[r.URL.Path]++
	}
	c.mu.Unlock()
	c.next.ServeHTTP(w, r)
}

func (c *counter) addr() string { return c.Listener.Addr().String() }

func largest(img *harness.Image) (d string) {
	for digest, b := range img.Blobs {
		if len(b) > len(img.Blobs[d]) {
			d = digest
		}
	}
	return d
}

// kill -9 of a mirror during cold pulls never leaves wrong bytes, nor anything after the
// purge.
func TestMirror_Kill(t *testing.T) {
	t.Parallel()
	killMirror(t, onFilesystem, 3)
}

// `make soak` asks for more kills.
func TestFull_Mirror_Kill(t *testing.T) {
	t.Parallel()
	for name, on := range allPlaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // on MinIO it waits for the lease of a mirror that was killed
			kills := map[string]int{"filesystem": 15, "MinIO": 5}[name]
			if n, err := strconv.Atoi(os.Getenv("SLIPWAY_SOAK_KILLS")); err == nil {
				kills = min(n, 100)
			}
			killMirror(t, on, kills)
		})
	}
}

func killMirror(t *testing.T, on func(*testing.T, string) *place, kills int) {
	up := harness.StartRegistry(t, t.TempDir())
	place, addr := on(t, up.Addr), programtest.FreeAddr(t)
	images := make([]*harness.Image, kills)
	for i := range images {
		images[i] = harness.NewImage(t, uint64(3*i), 4, 400_000)
		images[i].Push(t, up.Addr, fmt.Sprint("app", i), "v1")
	}
	stored := 0
	for i := range images {
		p := harness.Start(t, addr, place.command(addr))
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		var got atomic.Int32
		for _, img := range images[max(i-1, 0) : i+1] { // the one before was interrupted
			n := i
			if img != images[i] {
				n = i - 1
			}
			for d, want := range img.Blobs {
				clients.Go(func() {
					kind := "blobs"
					if d == img.Manifest {
						kind = "manifests"
					}
					req, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://%s/v2/app%d/%s/%s", addr, n, kind, d), nil)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return
					}
					defer resp.Body.Close()
					if b, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == 200 {
						got.Add(1)
						if !bytes.Equal(b, want) {
							t.Errorf("%s has other bytes", d)
						}
					}
				})
			}
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		p.Kill()
		cancel()
		clients.Wait()
		stored += int(got.Load())
	}
	t.Logf("%d transfers completed in %d rounds", stored, kills)
	p := harness.Start(t, addr, place.command(addr, `REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING={enabled: true, age: 1ms, interval: 100ms, dryrun: false}`))
	deadline := time.Now().Add(place.lease + time.Minute)
	for len(place.uploads()) > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if left := place.uploads(); len(left) > 0 {
		t.Errorf("after the purge there are still %d files, such as %s", len(left), left[0])
	}
	p.Kill()
	p = harness.Start(t, addr, place.command(addr))
	for i, img := range images {
		img.Pulls(t, p.Addr, fmt.Sprint("app", i), "v1")
	}
	p.Stop(t)
	if out, code := harness.Run(t, nil, "verify", "--config", place.config); code != 0 {
		t.Errorf("registry verify: %d\n%s", code, out)
	}
}

func writeConfig(t testing.TB, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	harness.WriteFile(t, path, []byte("version: 0.1\nstorage: {filesystem: {rootdirectory: "+root+"}}\n"))
	return path
}
