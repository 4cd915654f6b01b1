package replication

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage/memory"
)

// pair is a registry with one target, whose requests a test can answer itself.
type pair struct {
	*Replicator
	t       *Target
	there   *registry.Registry
	answer  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool] // true = answered
	changes atomic.Int64                                                  // requests that aren't GET or HEAD

	mu        sync.Mutex
	manifests map[string]bool // that were put since the last turn, by path and digest
	tags      int             // the same
}

func newPair(t *testing.T, change func(*Target)) *pair {
	p := &pair{there: registry.New(registry.Options{Store: memory.New(), DeleteEnabled: true}), manifests: map[string]bool{}}
	handler, err := api.New(api.Options{Registry: p.there, DeleteEnabled: true, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			p.changes.Add(1)
		}
		if f := p.answer.Load(); f != nil && (*f)(w, r) {
			return
		}
		handler.ServeHTTP(w, r)
		repo, ref, found := strings.Cut(r.URL.Path, "/manifests/")
		if found && r.Method == http.MethodPut {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.manifests[repo+w.Header().Get("Docker-Content-Digest")] = true
			if !strings.Contains(ref, ":") {
				p.tags++
			}
		}
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.t = &Target{
		Name: "backup", URL: at, Login: func(context.Context) (string, string, error) { return "", "", nil },
		Repositories: pattern.MustNames([]string{"**"}), OnPush: true,
		Woken: make(chan struct{}, 1),
	}
	if change != nil {
		change(p.t)
	}
	store := memory.New()
	p.Replicator = &Replicator{Store: store, Targets: []*Target{p.t}, UserAgent: "test", Log: zap.NewNop()}
	p.Registry = registry.New(registry.Options{Store: store, DeleteEnabled: true, Changed: p.Changed})
	return p
}

// turn copies what has changed, or compares everything.
func (p *pair) turn(t *testing.T, compare bool) (Status, error) {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // the marks get versions
	if compare {
		return p.Sync(t.Context(), p.t)
	}
	return p.Turn(t.Context(), p.t, false)
}

// mustTurn returns how many manifests and tags were put at the target.
func (p *pair) mustTurn(t *testing.T, compare bool) (manifests, tags int) {
	t.Helper()
	s, err := p.turn(t, compare)
	if err != nil || s.Waiting > 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	manifests, tags = len(p.manifests), p.tags
	p.manifests, p.tags = map[string]bool{}, 0
	return manifests, tags
}

// has checks what a tag points at there.
func (p *pair) has(t *testing.T, name oci.Name, tag oci.Tag, want oci.Digest) {
	t.Helper()
	got, _ := p.there.Repository(name).TagTarget(t.Context(), tag)
	if got != want {
		t.Errorf("%s:%s is %q there, want %q", name, tag, got, want)
	}
}

func pushReferrer(t *testing.T, repo registry.Repository, subject oci.Descriptor, text string) oci.Descriptor {
	config := registrytest.Push(t, repo, text)
	config.MediaType = "application/vnd.example.config"
	return registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": []oci.Descriptor{}, "subject": subject})
}

func TestTurn(t *testing.T) {
	p := newPair(t, nil)
	repo := p.Registry.Repository("team/app")
	one, two := registrytest.PushImage(t, repo, "v1", "1", "layer"), registrytest.PushImage(t, repo, "", "2", "layer", "more")
	index := registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{one, two}}, "multi")
	sbom := pushReferrer(t, repo, two, "SBOM")
	pushReferrer(t, repo, sbom, "signature of the SBOM")
	registrytest.PushImage(t, p.Registry.Repository("other"), "v1", "1", "layer")
	if manifests, tags := p.mustTurn(t, false); manifests != 6 || tags != 3 {
		t.Errorf("%d manifests, %d tags", manifests, tags)
	}
	p.has(t, "team/app", "v1", one.Digest)
	p.has(t, "team/app", "multi", index.Digest)
	there := p.there.Repository("team/app")
	for _, subject := range []oci.Digest{two.Digest, sbom.Digest} {
		if list, _, err := there.Referrers(t.Context(), subject, "", "", 0); err != nil || len(list) != 1 {
			t.Errorf("referrers of %s there: %v, %v", subject, list, err)
		}
	}
	done := p.changes.Load()
	if p.mustTurn(t, true); p.changes.Load() != done {
		t.Errorf("there was nothing to copy: %d changes", p.changes.Load()-done)
	}
	pushReferrer(t, repo, one, "late signature")
	if manifests, tags := p.mustTurn(t, false); manifests != 1 || tags != 0 {
		t.Errorf("one referrer: %d manifests, %d tags", manifests, tags)
	}
	registrytest.PutManifest(t, there, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{two}}, "v1")
	p.mustTurn(t, true)
	p.has(t, "team/app", "v1", one.Digest) // moved back
	if s, err := p.Status(t.Context(), p.t); err != nil || s.Error != "" || !s.Behind.IsZero() || s.At.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
}

// A request that fails for what isn't here deletes nothing at the target: the storage may be another one.
func TestTurn_NothingChanged(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Deletions = true })
	there := p.there.Repository("app")
	d := registrytest.PushImage(t, there, "v1", "1", "layer")
	manifest := mustBytes(t, there, d.Digest)
	for name, request := range map[string]func(registry.Repository) error{
		"delete repository": func(r registry.Repository) error { return r.Delete(t.Context()) },
		"delete manifest":   func(r registry.Repository) error { _, err := r.DeleteManifest(t.Context(), d.Digest); return err },
		"delete tag":        func(r registry.Repository) error { _, err := r.DeleteTag(t.Context(), "v1"); return err },
		"push without its blobs": func(r registry.Repository) error {
			_, err := r.PutManifest(t.Context(), oci.Reference{Tag: "v1"}, d.MediaType, manifest, nil)
			return err
		},
	} {
		if err := request(p.Registry.Repository("app")); err == nil {
			t.Errorf("%s: succeeded", name)
		}
		if s, err := p.turn(t, false); err != nil || !s.At.IsZero() {
			t.Errorf("%s: there was a turn: %+v, %v", name, s, err)
		}
		p.has(t, "app", "v1", d.Digest)
	}
}

// A platform that the target lacks although it has the index is copied: the target lost it, or this registry got it later.
func TestTurn_MissingPlatform(t *testing.T) {
	p := newPair(t, nil)
	repo := p.Registry.Repository("app")
	d := registrytest.PushImage(t, repo, "", "1", "layer")
	registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{d}}, "v1")
	p.mustTurn(t, false)
	there := p.there.Repository("app")
	if _, err := there.DeleteManifest(t.Context(), d.Digest); err != nil {
		t.Fatal(err)
	}
	if manifests, tags := p.mustTurn(t, true); manifests != 1 || tags != 0 {
		t.Errorf("%d manifests, %d tags", manifests, tags)
	}
	mustBytes(t, there, d.Digest)
}

func mustBytes(t *testing.T, repo registry.Repository, d oci.Digest) []byte {
	m, err := repo.Peek(t.Context(), oci.Reference{Digest: d})
	if err != nil {
		t.Fatal(err)
	}
	return m.Bytes
}

// What can't be copied stays marked, and is copied later. A failure of one repository doesn't stop the others.
func TestTurn_Faults(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		paths  string // prefix of the requests that fail
		want   string
		other  bool // the other repository is copied
	}{
		"login":  {http.StatusUnauthorized, "/v2/", "basic credential not found", false},
		"denied": {http.StatusForbidden, "/v2/app/", "403", true},
		"broken": {http.StatusInternalServerError, "/v2/app/", "app: v1: ", true},
		"pause":  {http.StatusTooManyRequests, "/v2/", "429", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nil)
			d := registrytest.PushImage(t, p.Registry.Repository("app"), "v1", "1", "layer")
			registrytest.PushImage(t, p.Registry.Repository("other"), "v1", "1", "layer")
			fail := func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, c.paths) {
					return false
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(c.status)
				return true
			}
			p.answer.Store(&fail)
			report, err := p.turn(t, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || report.Waiting == 0 {
				t.Errorf("%+v, %v", report, err)
			}
			if s, err := p.Status(t.Context(), p.t); err != nil || s.Error == "" || s.Behind.IsZero() || s.Waiting != report.Waiting {
				t.Errorf("%+v, %v", s, err)
			}
			if _, ok := p.there.Repository("other").TagTarget(t.Context(), "v1"); ok != c.other {
				t.Errorf("the other repository was copied: %v", ok)
			}
			p.answer.Store(nil)
			p.mustTurn(t, false)
			p.has(t, "app", "v1", d.Digest)
		})
	}
}

// A 401 for one repository is a right that the login lacks, as token servers express it, once the login was accepted.
func TestTurn_LacksRight(t *testing.T) {
	p := newPair(t, func(t *Target) {
		t.Login = func(context.Context) (string, string, error) { return "copier", "secret", nil }
	})
	registrytest.PushImage(t, p.Registry.Repository("app"), "v1", "1", "layer")
	d := registrytest.PushImage(t, p.Registry.Repository("other"), "v1", "1", "layer")
	check := func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "copier" && password == "secret" && (r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v2/app/")) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	p.answer.Store(&check)
	if report, err := p.turn(t, false); err == nil || !strings.Contains(err.Error(), "app: v1: ") || !strings.Contains(err.Error(), "401") {
		t.Errorf("%+v, %v", report, err)
	}
	p.has(t, "other", "v1", d.Digest)
}

// A turn ends soon if the target is away, and everything stays marked.
func TestTurn_Away(t *testing.T) {
	p := newPair(t, nil)
	const repositories = 3 * maxFailures
	for i := range repositories {
		registrytest.PushImage(t, p.Registry.Repository(oci.Name(fmt.Sprint("app", i))), "v1", "1", "layer")
	}
	var asked atomic.Int64
	away := func(http.ResponseWriter, *http.Request) bool {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}
	p.answer.Store(&away)
	s, err := p.turn(t, false)
	if err == nil || s.Waiting != repositories || s.Behind.IsZero() || asked.Load() > 2*(maxFailures+parallel) { // a request may be repeated on another connection
		t.Errorf("%+v, %v, %d requests", s, err, asked.Load())
	}
	p.answer.Store(nil)
	p.mustTurn(t, false)
}

// One upload that the target cuts each time, as a proxy does with a large body, doesn't hold up others.
func TestTurn_CutUpload(t *testing.T) {
	p := newPair(t, nil)
	repo := p.Registry.Repository("app")
	registrytest.PushImage(t, repo, "large", "1", "large layer")
	good := registrytest.PushImage(t, repo, "small", "2", "layer")
	cut := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.ContentLength == int64(len("large layer")) {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	p.answer.Store(&cut)
	report, err := p.turn(t, false)
	if err == nil || !strings.Contains(err.Error(), "app: large: ") || report.Waiting != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	p.has(t, "app", "small", good.Digest)
}

// One tag that the target refuses doesn't keep its repository in comparison.
func TestTurn_RefusedTag(t *testing.T) {
	p := newPair(t, nil)
	repo := p.Registry.Repository("app")
	good := registrytest.PushImage(t, repo, "good", "1", "layer")
	registrytest.PushImage(t, repo, "bad", "2", "layer")
	var asked atomic.Int64
	fail := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/manifests/good") {
			asked.Add(1)
		}
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/manifests/bad") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		return true
	}
	p.answer.Store(&fail)
	if report, err := p.turn(t, true); err == nil || report.Waiting != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	p.has(t, "app", "good", good.Digest)
	asked.Store(0)
	if report, err := p.turn(t, false); err == nil || report.Waiting != 1 || asked.Load() > 0 {
		t.Errorf("%+v, %v; %d requests for the tag that is there", report, err, asked.Load())
	}
	p.answer.Store(nil)
	p.mustTurn(t, false)
}

// Many tags that the target refuses hold up nothing else, neither the rest of their repository nor a comparison of others.
func TestTurn_ManyRefusedTags(t *testing.T) {
	p := newPair(t, nil)
	var late oci.Descriptor
	for n := range parallel {
		repo := p.Registry.Repository(oci.Name(fmt.Sprint("app", n)))
		for i := range maxFailures {
			registrytest.PushImage(t, repo, oci.Tag(fmt.Sprint("bad", i)), fmt.Sprint(i), "layer")
		}
		late = registrytest.PushImage(t, repo, "late", "late", "layer")
	}
	var refused atomic.Int64
	fail := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/bad") {
			return false
		}
		refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	p.answer.Store(&fail)
	_, _ = p.turn(t, false) // all tags wait, and the first ones fail
	p.t.OnPush = false      // as before a target is added
	other := registrytest.PushImage(t, p.Registry.Repository("other"), "v1", "1", "layer")
	for range parallel + 2 { // each finds out ten tags at least
		if _, err := p.turn(t, true); err == nil {
			t.Fatal("no tag was refused")
		}
	}
	for n := range parallel {
		p.has(t, oci.Name(fmt.Sprint("app", n)), "late", late.Digest)
	}
	p.has(t, "other", "v1", other.Digest)
	p.t.OnPush = true
	pushed := registrytest.PushImage(t, p.Registry.Repository("other"), "v2", "2", "layer")
	time.Sleep(20 * time.Millisecond) // the mark gets a version
	refused.Store(0)
	if s, err := p.Turn(t.Context(), p.t, true); err != nil || s.Error == "" || refused.Load() > 0 {
		t.Errorf("a push while others wait: %+v, %v; %d refused", s, err, refused.Load())
	}
	p.has(t, "other", "v2", pushed.Digest)
	p.answer.Store(nil)
	for s := (Status{Waiting: 1}); s.Waiting > 0; {
		var err error
		if s, err = p.turn(t, false); err != nil {
			t.Fatal(err)
		}
	}
	want, _ := p.Registry.Repository("app0").TagTarget(t.Context(), "bad0")
	p.has(t, "app0", "bad0", want)
}

func TestSelects(t *testing.T) {
	o := &Replicator{Caches: func(n oci.Name) bool { return strings.HasPrefix(string(n), "hub/") }}
	at := &Target{URL: &url.URL{Path: "/copies"}, Repositories: pattern.MustNames([]string{"**"})}
	for name, want := range map[oci.Name]bool{"app": true, "hub/alpine": false, "copies/app": false, "copies2/app": true} {
		if got := o.selects(at, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

var _ imagecopy.Comparer = (*repository)(nil)

// A comparison ends with its context, although a storage in memory doesn't look at it.
func TestSync_Canceled(t *testing.T) {
	p := newPair(t, nil)
	registrytest.PushImage(t, p.Registry.Repository("app"), "v1", "1", "layer")
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(Pause/2, cancel).Stop()
	if s, err := p.Sync(ctx, p.t); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want the error of the context", s, err)
	}
}
