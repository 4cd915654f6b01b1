package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/upload"
)

// renewals is a store that counts what is renewed, and fails it if told to.
type renewals struct {
	both
	keys []string
	err  error
}

func (s *renewals) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	for _, c := range slices.Concat(stages...) {
		if c.Renew {
			s.keys = append(s.keys, c.Key)
			if s.err != nil {
				return s.err
			}
		}
	}
	return s.both.Apply(ctx, section, stages...)
}

// What was confirmed to a client stays for the grace period: the link is renewed once
// it is old. A pull confirms nothing.
func TestAdvertisedLinksAreRenewed(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := &renewals{both: open(t)}
			now := time.Now().Add(time.Second)
			r := newRegistry(store, Options{Grace: time.Hour, RenewAfter: time.Minute, Now: func() time.Time { return now }})
			repo := r.Repository("a")
			d := pushImage(t, repo, "v1", "x")
			layer := sum("layer x")
			look := func() {
				_, err := repo.StatBlob(t.Context(), layer)
				check(t, err)
				_, err = repo.StatManifest(t.Context(), oci.Reference{Digest: d})
				check(t, err)
			}
			look()
			if len(store.keys) > 0 {
				t.Errorf("young links are renewed: %q", store.keys)
			}
			now = now.Add(2 * time.Minute)
			for _, ref := range []oci.Reference{tagged("v1"), {Digest: d}} {
				_, err := repo.Manifest(t.Context(), ref)
				check(t, err)
			}
			readBlob(t, repo, layer)
			if len(store.keys) > 0 {
				t.Errorf("a pull renews %q", store.keys)
			}
			look()
			if want := []string{layout.LayerLink("a", layer), layout.RevisionLink("a", d)}; !slices.Equal(store.keys, want) {
				t.Errorf("renewed %q, want %q", store.keys, want)
			}
			info, err := store.Stat(t.Context(), layout.LayerLink("a", layer))
			check(t, err)
			if age := time.Since(info.Modified); age > 10*time.Second {
				t.Errorf("the link is %v old", age)
			}

			store.keys, store.err = nil, storage.ErrReadOnly
			look() // what cannot be written is told all the same
			if len(store.keys) != 2 {
				t.Errorf("renewed %q", store.keys)
			}
			store.keys = nil
			readOnly := newRegistry(store, Options{Grace: time.Hour, ReadOnly: true}).Repository("a")
			_, err = readOnly.StatBlob(t.Context(), layer)
			check(t, err)
			if len(store.keys) > 0 {
				t.Errorf("a read-only registry renews %q", store.keys)
			}
		})
	}
}

// publish stands for a collection that is under way.
func publish(t *testing.T, s storage.Coordinator, keys ...string) {
	t.Helper()
	check(t, s.Publish(context.Background(), storage.Pending{Run: "run", Keys: keys}))
}

// Whoever needs what a collection is about to delete waits, and then looks again.
// Pulls do not wait.
func TestWritersWaitForCollections(t *testing.T) {
	d, layer := sum(string(image{}.bytes())), sum("layer x")
	for name, tt := range map[string]struct {
		keys func(d oci.Digest) []string
		use  func(repo, other Repository, m *Manifest) error
		code oci.Code // once it is deleted
	}{
		"HEAD, the link": {
			func(oci.Digest) []string { return []string{layout.LayerLink("a", layer)} },
			func(repo, _ Repository, _ *Manifest) error {
				_, err := repo.StatBlob(context.Background(), layer)
				return err
			},
			oci.CodeBlobUnknown,
		},
		"HEAD, the bytes": {
			func(oci.Digest) []string { return []string{layout.BlobData(layer)} },
			func(repo, _ Repository, _ *Manifest) error {
				_, err := repo.StatBlob(context.Background(), layer)
				return err
			},
			oci.CodeBlobUnknown,
		},
		"HEAD of a manifest by digest": {
			func(d oci.Digest) []string { return []string{layout.RevisionLink("a", d)} },
			func(repo, _ Repository, m *Manifest) error {
				_, err := repo.StatManifest(context.Background(), oci.Reference{Digest: m.Digest})
				return err
			},
			oci.CodeManifestUnknown,
		},
		"mount": {
			func(oci.Digest) []string { return []string{layout.BlobData(layer)} },
			func(_, other Repository, _ *Manifest) error {
				_, err := other.MountBlob(context.Background(), layer, "a", nil)
				return err
			},
			oci.CodeBlobUnknown,
		},
		"push of a manifest": {
			func(oci.Digest) []string { return []string{layout.LayerLink("a", layer)} },
			func(repo, _ Repository, m *Manifest) error {
				_, err := repo.PutManifest(context.Background(), tagged("new"), m.MediaType, m.Bytes, nil)
				return err
			},
			oci.CodeManifestBlobUnknown,
		},
		"push of a manifest that is there": {
			func(d oci.Digest) []string { return []string{layout.RevisionLink("a", d)} },
			func(repo, _ Repository, m *Manifest) error {
				_, err := repo.PutManifest(context.Background(), tagged("new"), m.MediaType, m.Bytes, nil)
				return err
			},
			"",
		},
		"upload of known bytes": {
			func(oci.Digest) []string { return []string{layout.BlobData(layer)} },
			func(repo, _ Repository, _ *Manifest) error {
				_, err := tryPushBlob(repo, "layer x", layer)
				return err
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				r := newRegistry(store, Options{Grace: time.Hour})
				repo := r.Repository("a")
				d = pushImage(t, repo, "v1", "x")
				m, err := repo.Manifest(t.Context(), oci.Reference{Digest: d})
				check(t, err)

				publish(t, store, tt.keys(d)...)
				begun := time.Now()
				err = tt.use(repo, r.Repository("b"), m)
				wantCode(t, err, oci.CodeUnavailable)
				if waited := time.Since(begun); waited < maxListed || waited > maxListed+time.Second {
					t.Errorf("it waited %v", waited)
				}
				begun = time.Now()
				readBlob(t, repo, layer)
				for _, ref := range []oci.Reference{tagged("v1"), {Digest: d}} {
					_, err = repo.Manifest(t.Context(), ref)
					check(t, err)
				}
				if waited := time.Since(begun); waited > 0 {
					t.Errorf("pulls waited %v", waited)
				}

				done := make(chan error)
				go func() { done <- tt.use(repo, r.Repository("b"), m) }()
				time.Sleep(time.Second)
				select {
				case err := <-done:
					t.Fatalf("it does not wait: %v", err)
				default:
				}
				for _, key := range tt.keys(d) {
					removeObject(t, store, key)
				}
				publish(t, store)
				err = <-done
				if tt.code == "" {
					check(t, err)
				} else {
					wantCode(t, err, tt.code)
				}
			})
		})
	}
}

// While a collection is under way, each link that is written leaves a mark first.
func TestLinksLeaveMarks(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			r := newRegistry(store, Options{})
			pushImage(t, r.Repository("a"), "v0", "before")
			lock, err := store.Lock(t.Context(), storage.CollectorLock)
			check(t, err)
			defer lock.Release()
			marks := func() string {
				keys, err := r.store.Keys(t.Context(), layout.LinkedBy("run"))
				check(t, err)
				return strings.Join(keys, " ")
			}
			if got := marks(); got != "" {
				t.Errorf("without a collection there are %s", got)
			}
			publish(t, store)
			d := pushImage(t, r.Repository("a"), "v1", "x")
			_, err = r.Repository("b").MountBlob(t.Context(), sum("layer before"), "a", nil)
			check(t, err)
			for _, d := range []oci.Digest{d, sum("layer x"), sum("config x"), sum("layer before")} {
				if !strings.Contains(marks(), layout.Linked("run", d)) {
					t.Errorf("no mark of %s in %s", d, marks())
				}
			}
		})
	}
}

// expiring is a coordinator whose sections pass their deadline at once, for a while.
type expiring struct {
	both
	left int
}

func (e *expiring) Begin(ctx context.Context) (storage.Section, error) {
	s, err := e.both.Begin(ctx)
	if e.left--; e.left >= 0 {
		return late{s}, err
	}
	return s, err
}

type late struct{ storage.Section }

func (late) Deadline() time.Time { return time.Now().Add(-time.Second) }

func (e *expiring) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	if _, ok := section.(late); ok {
		for _, c := range slices.Concat(stages...) {
			if c.Upload != nil {
				c.Upload.Suspend(ctx, nil)
			}
		}
		return storage.ErrExpired
	}
	return e.both.Apply(ctx, section, stages...)
}

// What looked at something in a section that is too old looks again in a new one.
func TestExpiredSectionIsRepeated(t *testing.T) {
	store := &expiring{both: memory.New()}
	r := newRegistry(store, Options{DeleteEnabled: true})
	repo := r.Repository("a")
	for range 2 {
		store.left = 1
		pushBlob(t, repo, "x")
		store.left = 1
		_, err := repo.StatBlob(t.Context(), sum("x"))
		check(t, err)
		if store.left > 0 {
			t.Error("the first section was not tried")
		}
		store.left = 1
		_, err = r.Repository("b").MountBlob(t.Context(), sum("x"), "a", nil)
		check(t, err)
		m := simpleImage(t, repo, "y")
		store.left = 1
		put(t, repo, tagged("v1"), m)
	}
}

// sealed is a coordinator on a store that cannot be written.
type sealed struct{ both }

func (sealed) Begin(context.Context) (storage.Section, error) { return nil, storage.ErrReadOnly }

// A store that became read-only is still pulled from; a push is told why it fails.
func TestReadOnlyStore(t *testing.T) {
	store := memory.New()
	d := pushImage(t, newRegistry(store, Options{}).Repository("a"), "v1", "x")
	repo := newRegistry(sealed{store}, Options{Grace: time.Hour}).Repository("a")
	_, err := repo.StatManifest(t.Context(), oci.Reference{Digest: d})
	check(t, err)
	_, err = repo.StatBlob(t.Context(), sum("layer x"))
	check(t, err)
	_, err = repo.MountBlob(t.Context(), sum("layer x"), "a", nil)
	wantCode(t, err, oci.CodeUnavailable)
	if !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("got %v", err)
	}
}

// upstreamStub serves repositories below "hub", and remembers what it was asked.
type upstreamStub struct {
	asked []string
	fill  func(Repository)
}

func (u *upstreamStub) Caches(name oci.Name) bool { return strings.HasPrefix(string(name), "hub/") }

func (u *upstreamStub) Within(ns string, name oci.Name) (oci.Name, error) {
	return oci.Name(ns) + "/" + name, nil
}

func (u *upstreamStub) Manifest(ctx context.Context, r Repository, ref oci.Reference, have *Manifest) (*Manifest, error) {
	u.asked = append(u.asked, "manifest "+ref.String())
	if have == nil && u.fill != nil {
		u.fill(r)
		return r.Manifest(ctx, ref)
	}
	if have == nil {
		return nil, oci.NewError(oci.CodeManifestUnknown, nil)
	}
	return have, nil
}

func (u *upstreamStub) StatBlob(ctx context.Context, r Repository, d oci.Digest) (oci.Descriptor, error) {
	u.asked = append(u.asked, "stat")
	if u.fill == nil {
		return oci.Descriptor{}, oci.NewError(oci.CodeBlobUnknown, nil)
	}
	u.fill(r)
	return r.StatBlob(ctx, d)
}

func (u *upstreamStub) OpenBlob(ctx context.Context, r Repository, d oci.Digest) (*Blob, error) {
	u.asked = append(u.asked, "open")
	if u.fill == nil {
		return nil, oci.NewError(oci.CodeBlobUnknown, nil)
	}
	u.fill(r)
	return r.OpenBlob(ctx, d)
}

func (u *upstreamStub) Tags(context.Context, Repository) ([]string, string, error) {
	u.asked = append(u.asked, "tags")
	return []string{"a", "b"}, "stale", nil
}

func (u *upstreamStub) Referrers(context.Context, Repository, oci.Digest) ([]oci.Descriptor, string, error) {
	u.asked = append(u.asked, "referrers")
	return []oci.Descriptor{{Digest: sum("1"), ArtifactType: "x"}, {Digest: sum("2"), ArtifactType: "y"}}, "stale", nil
}

func (u *upstreamStub) Hit(oci.Name, bool) {}

// An upstream is asked for what a cache does not hold, and about every tag; what other
// repositories lack, it is not asked for.
func TestUpstream(t *testing.T) {
	ctx := t.Context()
	for _, found := range []bool{true, false} {
		for name, get := range map[string]func(Repository) error{
			"manifest v1": func(r Repository) error { _, err := r.Manifest(ctx, tagged("v1")); return err },
			"open":        func(r Repository) error { _, err := r.OpenBlob(ctx, sum("layer x")); return err },
			"stat":        func(r Repository) error { _, err := r.StatBlob(ctx, sum("layer x")); return err },
			"manifest " + string(sum("none")): func(r Repository) error {
				_, err := r.Manifest(ctx, oci.Reference{Digest: sum("none")})
				return err
			},
		} {
			up := &upstreamStub{}
			if found {
				up.fill = func(r Repository) { pushImage(t, r, "v1", "x") }
			}
			reg := newRegistry(memory.New(), Options{Upstream: up})
			if err := get(reg.Repository("local")); err == nil || len(up.asked) != 0 {
				t.Errorf("%s of a local repository: %v after %v", name, err, up.asked)
			}
			err := get(reg.Repository("hub/a"))
			if ok := found && name != "manifest "+string(sum("none")); (err == nil) != ok || len(up.asked) != 1 || up.asked[0] != name {
				t.Errorf("%s, found %v: %v after %v", name, found, err, up.asked)
			}
		}
	}
}

func TestCacheIsReadOnlyForClients(t *testing.T) {
	ctx, up := t.Context(), &upstreamStub{}
	reg := newRegistry(memory.New(), Options{Upstream: up, DeleteEnabled: true})
	d := pushImage(t, reg.Cached("hub/a"), "v1", "x")
	r := reg.Repository("hub/a")
	m, err := r.Manifest(ctx, tagged("v1"))
	check(t, err)
	if m.Digest != d || len(up.asked) != 1 {
		t.Errorf("%s after %v", m.Digest, up.asked)
	}
	_, err = r.StartUpload(ctx, "")
	wantCode(t, err, oci.CodeUnsupported)
	_, err = r.ResumeUpload(ctx, "4a3f1c9e-0000-4000-8000-000000000000", upload.Point{})
	wantCode(t, err, oci.CodeUnsupported)
	_, err = r.MountBlob(ctx, sum("layer x"), "", nil)
	wantCode(t, err, oci.CodeUnsupported)
	_, err = r.PutManifest(ctx, tagged("v2"), "", m.Bytes, nil)
	wantCode(t, err, oci.CodeUnsupported)
	_, err = r.DeleteManifest(ctx, d)
	wantCode(t, err, oci.CodeUnsupported)
	wantCode(t, deleteTag(ctx, r, "v1"), oci.CodeUnsupported)
	wantCode(t, r.DeleteBlob(ctx, sum("layer x")), oci.CodeUnsupported)
	wantCode(t, r.Delete(ctx), oci.CodeUnsupported)
	pushImage(t, reg.Repository("local"), "v1", "y")
}

func TestCacheLists(t *testing.T) {
	ctx, up := t.Context(), &upstreamStub{}
	r := newRegistry(memory.New(), Options{Upstream: up}).Repository("hub/a")
	tags, page, err := r.Tags(ctx, 1, "")
	check(t, err)
	if len(tags) != 1 || tags[0] != "a" || page != (Page{"a", "stale"}) {
		t.Errorf("%v, %v", tags, page)
	}
	list, page, err := r.Referrers(ctx, sum("0"), "y", "", 0)
	check(t, err)
	if page != (Page{"", "stale"}) {
		t.Errorf("referrers: %v", page)
	}
	if len(list) != 1 || list[0].Digest != sum("2") {
		t.Errorf("%v", list)
	}
}

// A manifest is cached before what it refers to, and its tag moves though a rule for
// pushes says that it may not.
func TestCacheManifest(t *testing.T) {
	ctx := t.Context()
	names, err := pattern.ParseNames([]string{"**"})
	check(t, err)
	all, err := pattern.ParseTags([]string{".*"})
	check(t, err)
	up := &upstreamStub{}
	reg := newRegistry(memory.New(), Options{Upstream: up, Immutable: []TagRule{{Repositories: names, Tags: all}}})
	cache := reg.Cached("hub/a")
	for _, layer := range []string{"x", "y"} {
		body := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","config":{"mediaType":"a/b","digest":"` + string(sum(layer)) + `","size":1},"layers":[]}`)
		want := oci.SHA256.FromBytes(body)
		_, err := cache.CacheManifest(ctx, want, body, "v1")
		check(t, err)
		m, err := reg.Repository("hub/a").Manifest(ctx, tagged("v1"))
		check(t, err)
		if m.Digest != want {
			t.Errorf("got %s, want %s", m.Digest, want)
		}
	}
}

// sectioned counts sections, and the objects that are opened in all and while there is one.
type sectioned struct {
	both
	sections, opened, inside atomic.Int64
}

func (s *sectioned) Begin(ctx context.Context) (storage.Section, error) {
	section, err := s.both.Begin(ctx)
	if err != nil {
		return nil, err
	}
	s.sections.Add(1)
	return countedSection{section, s}, nil
}

type countedSection struct {
	storage.Section
	of *sectioned
}

func (c countedSection) End() {
	c.of.sections.Add(-1)
	c.Section.End()
}

func (s *sectioned) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	s.opened.Add(1)
	if s.sections.Load() > 0 {
		s.inside.Add(1)
	}
	return s.both.Open(ctx, key, offset, length)
}

// Bytes whose size is disputed are read again while no collection has to wait.
func TestBytesAreReadOutsideOfSections(t *testing.T) {
	store := &sectioned{both: memory.New()}
	repo := newRegistry(store, Options{}).Repository("a")
	m := simpleImage(t, repo, "x")
	size := m.Layers[0].Size
	m.Layers[0].Size = size + 1
	_, err := again(repo.reg, Options{}).Repository("a").PutManifest(t.Context(), tagged("t"), "", m.bytes(), nil)
	wantCode(t, err, oci.CodeManifestInvalid)

	putObject(t, store, layout.BlobData(m.Layers[0].Digest), "damaged layer")
	m.Layers[0].Size = size
	repo = again(repo.reg, Options{}).Repository("a")
	_, err = repo.PutManifest(t.Context(), tagged("t"), "", m.bytes(), nil)
	wantCode(t, err, oci.CodeManifestBlobUnknown)
	_, err = repo.MountBlob(t.Context(), m.Layers[0].Digest, "a", nil)
	wantCode(t, err, oci.CodeBlobUnknown)
	if in, all := store.inside.Load(), store.opened.Load(); in > 0 || all != 2 {
		t.Errorf("%d blobs were read, %d of them within a section; want 2 and none", all, in)
	}
}
