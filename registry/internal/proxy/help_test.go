package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/api"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// world is an upstream, a fault in front of it, a cache, and a server of that.
type world struct {
	t      *testing.T
	origin *registry.Registry // what the upstream holds
	front  *front
	store  storage.Store
	source *Source
	cache  *Registry
	reg    *registry.Registry // with the cache
	url    string             // of the server
	remote string             // that of the upstream
	clock  *clock
}

// clock is a time that tests move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// front counts requests, and answers them itself if a fault says so.
type front struct {
	next http.Handler

	mu    sync.Mutex
	seen  []string
	fault func(w http.ResponseWriter, r *http.Request) (answered bool)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen = append(f.seen, r.Method+" "+r.URL.Path)
	fault := f.fault
	f.mu.Unlock()
	if fault == nil || !fault(w, r) {
		f.next.ServeHTTP(w, r)
	}
}

func (f *front) fail(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// with answers everything with a status.
func (f *front) with(status int, header ...string) {
	f.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		return true
	})
}

// requests are those since the last call that begin so.
func (f *front) requests(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	f.seen = nil
	return n
}

type option func(*Options, *Source, *registry.Options, *upstream.Options)

func newWorld(t *testing.T, options ...option) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, store: memory.New()}
	origin := memory.New()
	w.origin = registry.New(registry.Options{Store: origin, DeleteEnabled: true})
	handler, err := api.New(api.Options{Registry: w.origin, DeleteEnabled: true, Log: nopLog})
	if err != nil {
		t.Fatal(err)
	}
	w.front = &front{next: handler}
	server := httptest.NewServer(w.front)
	t.Cleanup(server.Close)
	w.remote = server.URL
	remote, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.source = &Source{Name: "hub", Prefix: "hub", Namespaces: []string{"docker.io"}, TagTTL: 5 * time.Minute, TTL: 168 * time.Hour}
	o := Options{Sources: []*Source{w.source}, Now: w.clock.now, Patience: 30 * time.Second, Spool: filepath.Join(t.TempDir(), "spool")}
	ro := registry.Options{Store: w.store}
	co := upstream.Options{URL: remote, Timeout: 20 * time.Second, Stall: 20 * time.Second}
	for _, option := range options {
		option(&o, w.source, &ro, &co)
	}
	w.store = ro.Store
	w.source.Client = upstream.New(co)
	w.reg = registry.New(ro)
	o.Registry = w.reg
	w.cache = New(o)
	t.Cleanup(w.cache.Close)
	handler, err = api.New(api.Options{Registry: w.reg, Proxy: w.cache, DeleteEnabled: true, Log: nopLog})
	if err != nil {
		t.Fatal(err)
	}
	own := httptest.NewServer(handler)
	t.Cleanup(own.Close)
	w.url = own.URL
	return w
}

// impatient has the cache wait for its upstream only for a moment.
func (w *world) impatient() {
	remote, err := url.Parse(w.remote)
	check(w.t, err)
	w.source.Client = upstream.New(upstream.Options{URL: remote, Timeout: 100 * time.Millisecond})
}

func emptyPrefix(o *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.Prefix = "" }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// push pushes an image of the layers to the upstream.
func (w *world) push(name oci.Name, tag oci.Tag, layers ...[]byte) *registry.Manifest {
	w.t.Helper()
	return pushTo(w.t, w.origin.Repository(name), tag, layers...)
}

func pushTo(t *testing.T, r registry.Repository, tag oci.Tag, layers ...[]byte) *registry.Manifest {
	t.Helper()
	var contents []string
	for _, layer := range layers {
		contents = append(contents, string(layer))
	}
	d := registrytest.PushImage(t, r, tag, fmt.Sprintf("config of %s %s", r.Name(), tag), contents...)
	m, err := r.Manifest(t.Context(), oci.Reference{Digest: d.Digest})
	check(t, err)
	return m
}

// get asks the cache's server.
func (w *world) get(path string, header ...string) (*http.Response, []byte) {
	w.t.Helper()
	resp, body, err := w.try(http.MethodGet, path, header...)
	check(w.t, err)
	return resp, body
}

func (w *world) try(method, path string, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, w.url+path, nil)
	check(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// settle waits until no transfer is under way.
func (w *world) settle() {
	w.t.Helper()
	for {
		w.cache.mu.Lock()
		n := len(w.cache.transfers)
		w.cache.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// uploads counts what is left of uploads.
func (w *world) uploads(name oci.Name) (n int) {
	w.t.Helper()
	for _, err := range w.store.List(w.t.Context(), "/docker/registry/v2/repositories/"+string(name)+"/_uploads", storage.ListOptions{Flat: true}) {
		check(w.t, err)
		n++
	}
	return n
}

// fullStore is a store that has no room any more.
type fullStore struct {
	storage.Store
	mu   sync.Mutex
	room int // uploads' bytes
	full bool

	hang func(context.Context) // called in place of each commit of an upload; nil = they are done
}

func (s *fullStore) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	s.mu.Lock()
	full, hang := s.full, s.hang
	s.mu.Unlock()
	for _, stage := range stages {
		for _, change := range stage {
			if change.Upload != nil && hang != nil {
				hang(ctx)
				return context.DeadlineExceeded
			}
		}
	}
	if full {
		for _, stage := range stages {
			for _, change := range stage {
				if !change.Delete {
					return storage.ErrNoSpace
				}
			}
		}
	}
	return s.Store.Apply(ctx, a, stages...)
}

func (s *fullStore) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	u, err := s.Store.OpenUpload(ctx, key, o)
	return &fullUpload{u, s}, err
}

type fullUpload struct {
	storage.Upload
	s *fullStore
}

func (u *fullUpload) Write(p []byte) (int, error) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if len(p) > u.s.room {
		n, err := u.Upload.Write(p[:u.s.room])
		u.s.room = 0
		if err == nil {
			err = storage.ErrNoSpace
		}
		return n, err
	}
	u.s.room -= len(p)
	return u.Upload.Write(p)
}

func localNames(t *testing.T, patterns ...string) pattern.Names {
	t.Helper()
	n, err := pattern.ParseNames(patterns)
	check(t, err)
	return n
}

// noise is bytes that no compression makes smaller, the same for each seed.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func mustTags(t *testing.T, expressions ...string) pattern.Tags {
	t.Helper()
	tags, err := pattern.ParseTags(expressions)
	check(t, err)
	return tags
}
