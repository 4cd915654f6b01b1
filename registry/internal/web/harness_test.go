package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// site is a registry with pages behind real HTTP.
type site struct {
	*testing.T
	rules     *registry.Registry
	url       string
	handler   http.Handler
	pages     *Web
	passwords string // path of the file
}

// setup holds a test's changes of a site.
type setup struct {
	api   api.Options
	pages Options
	auth  auth.Options
	store storage.Store
	open  bool // everybody may do everything

	indexed bool // lists show sizes and dates
}

// team are rules with an owner, a developer, a reader and the public.
var team = []access.Rule{
	{Who: []string{"owner"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
	{Who: []string{"alice"}, Repositories: []string{"web/**"}, Allow: []string{"push", "tag-move", "delete", "list"}},
	{Who: []string{"lead"}, Repositories: []string{"web/**"}, Allow: []string{"admin"}},
	{Who: []string{"bob"}, Repositories: []string{"web/**"}, Allow: []string{"pull", "list"}},
	{Who: []string{"anyone"}, Repositories: []string{"public/**"}, Allow: []string{"pull", "list"}},
}

func newSite(t *testing.T, change ...func(*setup)) *site {
	t.Helper()
	s := &site{T: t, passwords: filepath.Join(t.TempDir(), "htpasswd")}
	s.setPasswords("owner", "alice", "bob", "nobody", "lead")
	rules, err := access.New(nil, team)
	if err != nil {
		t.Fatal(err)
	}
	users, err := auth.NewHtpasswd(auth.HtpasswdOptions{Path: s.passwords, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pattern.ParseTags([]string{"kept.*"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := pattern.ParseNames([]string{"**"})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	ring, err := keyring.Open(t.Context(), store, session.Lifetime, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	c := setup{
		store: store,
		api:   api.Options{Log: zap.NewNop(), DeleteEnabled: true, Secret: []byte("secret")},
		pages: Options{Sessions: session.New(store, ring), Version: "v1.2.3", DeleteEnabled: true},
		auth:  auth.Options{Rules: func() *access.Rules { return rules }, Logins: &auth.Logins{Htpasswd: users}, Realm: "realm"},
	}
	for _, f := range change {
		f(&c)
	}
	s.rules = registry.New(registry.Options{
		Store: c.store, KeepDeleted: c.pages.KeepDeleted, DeleteEnabled: true, Immutable: []registry.TagRule{{Repositories: all, Tags: kept}},
	})
	c.api.Registry, c.pages.Registry = s.rules, s.rules
	if c.indexed {
		s.index(store, &c.pages)
	}
	if !c.open {
		authorizer := auth.NewAuthorizer(c.auth)
		c.api.Auth, c.api.Rights, c.pages.Auth = authorizer, authorizer, authorizer
	}
	c.api.Board, c.api.Audit = c.pages.Board, c.pages.Audit
	handler, err := api.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	c.pages.API = handler
	pages, err := New(c.pages)
	if err != nil {
		t.Fatal(err)
	}
	handler.ServePages(pages)
	t.Cleanup(func() { _ = pages.Close() })
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.url, s.handler, s.pages = server.URL, handler, pages
	return s
}

// keepDeleted lets deletions be undone.
func keepDeleted(s *setup) { s.pages.KeepDeleted = 48 * time.Hour }

// indexed has lists show sizes and dates.
func indexed(s *setup) { s.indexed = true }

// index makes an index and keeps it current until the test ends.
func (s *site) index(store storage.Store, pages *Options) {
	s.Helper()
	x := pageindex.New(pageindex.Options{Store: store, Interval: time.Hour, Log: zap.NewNop()})
	pages.Index = x
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { x.Run(ctx); close(done) }()
	s.Cleanup(func() { stop(); <-done })
}

// open lets everybody do everything.
func open(s *setup) { s.open = true }

// setPasswords makes a password file; the password of x is "x-password".
func (s *site) setPasswords(users ...string) {
	s.Helper()
	var lines strings.Builder
	for _, user := range users {
		hash, err := bcrypt.GenerateFromPassword([]byte(user+"-password"), bcrypt.MinCost)
		if err != nil {
			s.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s:%s\n", user, hash)
	}
	if err := os.WriteFile(s.passwords, []byte(lines.String()), 0o600); err != nil {
		s.Fatal(err)
	}
}

// blob pushes a blob.
func (s *site) blob(name oci.Name, content []byte, mediaType string) oci.Descriptor {
	s.Helper()
	d := registrytest.Push(s, s.rules.Repository(name), string(content))
	d.MediaType = mediaType
	return d
}

// put pushes a manifest.
func (s *site) put(name oci.Name, ref oci.Reference, doc map[string]any) oci.Descriptor {
	s.Helper()
	return registrytest.PutManifest(s, s.rules.Repository(name), doc, ref.Tag)
}

const configType = "application/vnd.oci.image.config.v1+json"

// image pushes an image with a layer each of the contents. change may be nil.
func (s *site) image(name oci.Name, tag oci.Tag, change func(config, manifest map[string]any), contents ...string) oci.Descriptor {
	s.Helper()
	settings := map[string]any{"Env": []string{"PATH=/bin"}, "Entrypoint": []string{"/app"}}
	history := []map[string]any{{"created_by": "CMD nothing", "empty_layer": true}}
	var layers []oci.Descriptor
	for i, content := range contents {
		history = append(history, map[string]any{"created_by": fmt.Sprintf("/bin/sh -c make layer-%d # buildkit", i)})
		layers = append(layers, s.blob(name, []byte(content), "application/vnd.oci.image.layer.v1.tar+gzip"))
	}
	config := map[string]any{"created": "2026-01-02T03:04:05Z", "os": "linux", "architecture": "amd64", "config": settings, "history": history}
	manifest := map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "layers": layers}
	if change != nil {
		change(config, manifest)
	}
	body, err := json.Marshal(config)
	if err != nil {
		s.Fatal(err)
	}
	manifest["config"] = s.blob(name, body, configType)
	return s.put(name, oci.Reference{Tag: tag}, manifest)
}

// browser is a visitor without script: it keeps cookies and fills in forms.
type browser struct {
	*site
	client *http.Client
	status int
	header http.Header
	at     string // path after redirects
	page   string
}

func (s *site) browser() *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{site: s, client: &http.Client{Jar: jar}}
}

// as is a browser in which somebody has logged in.
func (s *site) as(user string) *browser {
	s.Helper()
	b := s.browser()
	b.post("/ui/login", "name", user, "password", user+"-password")
	b.want(200, user, "Log out")
	return b
}

func (b *browser) do(r *http.Request, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.status, b.header, b.at, b.page = resp.StatusCode, resp.Header, resp.Request.URL.RequestURI(), string(body)
}

func (b *browser) get(path string) {
	b.Helper()
	b.do(http.NewRequestWithContext(b.Context(), http.MethodGet, b.url+path, nil))
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]*)"`)

// post sends a form with the CSRF token of the page before.
func (b *browser) post(path string, pairs ...string) {
	b.Helper()
	form := url.Values{}
	if m := csrfField.FindStringSubmatch(b.page); m != nil {
		form.Set("csrf", m[1])
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+path, strings.NewReader(form.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	b.do(r, err)
}

// want holds the page against a status and texts; one that begins with a minus must not be there.
func (b *browser) want(status int, texts ...string) {
	b.Helper()
	if b.status != status {
		b.Fatalf("%s: status %d, want %d\n%s", b.at, b.status, status, b.page)
	}
	for _, text := range texts {
		without, absent := strings.CutPrefix(text, "-")
		if strings.Contains(b.page, without) == absent {
			b.Errorf("%s: want %q\n%s", b.at, text, b.page)
		}
	}
}
