package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/validation"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

// recorder keeps the stages of what is applied.
type recorder struct {
	hookedtest.Store
	applied [][]storage.Stage
}

func newRecorder(s storage.Store) *recorder {
	r := &recorder{Store: hookedtest.Store{Store: s}}
	r.OnApply = func(stages []storage.Stage) error { r.applied = append(r.applied, stages); return nil }
	return r
}

// Nothing points at a manifest before all of it is durable, and what points at it goes
// before it does.
func TestPointersComeLastAndGoFirst(t *testing.T) {
	rec := newRecorder(stores["memory"](t))
	repo := newRegistry(rec, Options{DeleteEnabled: true}).Repository("a")
	d := pushImage(t, repo, "t", "x")
	keys := func(stages []storage.Stage) (all [][]string) {
		for _, stage := range stages {
			var some []string
			for _, c := range stage {
				some = append(some, c.Key)
			}
			all = append(all, some)
		}
		return all
	}
	want := fmt.Sprint([][]string{
		{layout.BlobData(d), layout.RevisionLink("a", d), layout.TagIndex("a", "t", d), layout.TagPushed("a", "t")},
		{layout.TagCurrent("a", "t")},
	})
	if got := fmt.Sprint(keys(rec.applied[len(rec.applied)-1])); got != want {
		t.Errorf("pushed by %s", got)
	}
	rec.applied = nil
	_, err := repo.DeleteManifest(context.Background(), d)
	check(t, err)
	want = fmt.Sprint([][]string{{layout.TagCurrent("a", "t")}}, [][]string{{layout.TagIndex("a", "t", d), layout.TagPushed("a", "t"), layout.RevisionLink("a", d)}})
	if got := fmt.Sprint(keys(rec.applied[0]), keys(rec.applied[1])); got != want || len(rec.applied) != 2 {
		t.Errorf("deleted by %s", got)
	}
}

func TestPutManifestChecks(t *testing.T) {
	forbidden := validation.Rules{DenyURLs: []*regexp.Regexp{regexp.MustCompile(`evil`)}}
	allowed := validation.Rules{AllowURLs: []*regexp.Regexp{regexp.MustCompile(`^https://good\.`)}}
	foreign := func(urls ...string) func(*image) {
		return func(m *image) {
			m.Layers = append(m.Layers, oci.Descriptor{MediaType: oci.MediaTypeDockerForeignLayer, Digest: sum("far away"), Size: 8, URLs: urls})
		}
	}
	images, plugins := validation.Rules{Classes: []string{"image"}}, validation.Rules{Classes: []string{"plugin"}}
	tests := []struct {
		name       string
		validation validation.Rules
		change     func(*image)
		want       oci.Code
	}{
		{"class that may be pushed", images, func(*image) {}, ""},
		{"class that may not", plugins, func(*image) {}, oci.CodeDenied},
		{"no class", images, func(m *image) { m.Config.MediaType = "application/vnd.oci.empty.v1+json" }, oci.CodeDenied},
		{"index without class", plugins, func(m *image) { *m = image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{}} }, ""},
		{"right", validation.Rules{}, func(*image) {}, ""},
		{"no layers", validation.Rules{}, func(m *image) { m.Layers = nil }, ""},
		{"a layer twice", validation.Rules{}, func(m *image) { m.Layers = append(m.Layers, m.Layers...) }, ""},
		{"size left out", validation.Rules{}, func(m *image) { m.Layers[0].Size = 0 }, ""},
		{"absent subject", validation.Rules{}, func(m *image) { m.Subject = &oci.Descriptor{Digest: sum("absent"), Size: 6} }, ""},
		{"artifact", validation.Rules{}, func(m *image) { m.ArtifactType = "application/vnd.any+type" }, ""},
		{"absent layer", validation.Rules{}, func(m *image) { m.Layers[0].Digest = sum("absent") }, oci.CodeManifestBlobUnknown},
		{"absent config", validation.Rules{}, func(m *image) { m.Config.Digest = sum("absent") }, oci.CodeManifestBlobUnknown},
		{"absent, though checks are off", validation.Rules{Disabled: true}, func(m *image) { m.Layers[0].Digest = sum("absent") }, oci.CodeManifestBlobUnknown},
		{"wrong size", validation.Rules{}, func(m *image) { m.Layers[0].Size++ }, oci.CodeManifestBlobUnknown},
		{"malformed digest", validation.Rules{}, func(m *image) { m.Layers[0].Digest = "sha256:../../x" }, oci.CodeManifestInvalid},
		{"malformed subject", validation.Rules{}, func(m *image) { m.Subject = &oci.Descriptor{Digest: "x"} }, oci.CodeManifestInvalid},
		{"layer that is a manifest", validation.Rules{}, func(m *image) {
			m.Layers = append(m.Layers, oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: sum("absent")})
		}, oci.CodeManifestBlobUnknown},
		{"foreign layer", validation.Rules{}, foreign("https://example.com/x"), ""},
		{"foreign layer without URL", validation.Rules{}, foreign(), oci.CodeManifestBlobUnknown},
		{"foreign layer in a file", validation.Rules{}, foreign("file:///etc/passwd"), oci.CodeManifestInvalid},
		{"foreign layer with fragment", validation.Rules{}, foreign("https://example.com/#x"), oci.CodeManifestInvalid},
		{"foreign layer, one URL of two wrong", validation.Rules{}, foreign("https://example.com/x", "ftp://x"), oci.CodeManifestInvalid},
		{"foreign layer that is denied", forbidden, foreign("https://evil.example.com/x"), oci.CodeManifestInvalid},
		{"foreign layer that is not denied", forbidden, foreign("https://example.com/x"), ""},
		{"foreign layer that is allowed", allowed, foreign("https://good.example.com/x"), ""},
		{"foreign layer that is not allowed", allowed, foreign("https://example.com/x"), oci.CodeManifestInvalid},
		{"foreign layer, checks are off", validation.Rules{Disabled: true}, foreign("file:///x"), ""},
		{"layer with URLs that was not pushed", validation.Rules{}, func(m *image) {
			m.Layers[0].Digest, m.Layers[0].URLs = sum("absent"), []string{"https://example.com/x"}
		}, oci.CodeManifestBlobUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			repo := newRegistry(stores["memory"](t), Options{Validation: tt.validation}).Repository("a")
			m := simpleImage(t, repo, "x")
			tt.change(&m)
			_, err := repo.PutManifest(context.Background(), tagged("t"), "", m.bytes(), nil)
			if tt.want == "" {
				check(t, err)
				return
			}
			wantCode(t, err, tt.want)
			_, err = repo.Manifest(context.Background(), tagged("t"))
			wantCode(t, err, oci.CodeManifestUnknown)
		})
	}
}

// A token may name the classes of what is pushed with it; without one it is for images.
func TestPutManifest_ClassesOfAToken(t *testing.T) {
	const plugin = "application/vnd.docker.plugin.v1+json"
	repo := newRegistry(stores["memory"](t), Options{Validation: validation.Rules{Classes: []string{"image", "plugin"}}}).Repository("a")
	for _, tt := range []struct {
		granted []string
		plugin  bool
		want    oci.Code
	}{
		{nil, false, ""},
		{nil, true, ""},
		{[]string{""}, false, ""},
		{[]string{""}, true, oci.CodeDenied},
		{[]string{"plugin"}, true, ""},
		{[]string{"plugin"}, false, oci.CodeDenied},
		{[]string{"plugin", "image"}, false, ""},
		{[]string{}, false, oci.CodeDenied},
	} {
		m := simpleImage(t, repo, "x")
		if tt.plugin {
			m.MediaType, m.Config.MediaType = oci.MediaTypeDockerManifest, plugin
		}
		_, err := repo.OfClasses(tt.granted).PutManifest(t.Context(), tagged("t"), "", m.bytes(), nil)
		if tt.want == "" && err != nil {
			t.Errorf("%q, plugin %v: %v", tt.granted, tt.plugin, err)
		}
		if tt.want != "" {
			wantCode(t, err, tt.want)
		}
	}
}

// What a token may not push it may not restore.
func TestRestore_ClassesOfAToken(t *testing.T) {
	repo := newRegistry(stores["memory"](t), Options{DeleteEnabled: true, KeepDeleted: time.Hour, Validation: validation.Rules{Classes: []string{"image", "plugin"}}}).Repository("a")
	m := simpleImage(t, repo, "x")
	m.MediaType, m.Config.MediaType = oci.MediaTypeDockerManifest, "application/vnd.docker.plugin.v1+json"
	put(t, repo, tagged("t"), m)
	check(t, deleteTag(t.Context(), repo, "t"))
	_, err := repo.OfClasses([]string{""}).Restore(t.Context(), Selection{Tag: "t"})
	wantCode(t, err, oci.CodeDenied)
	_, err = repo.OfClasses([]string{"plugin"}).Restore(t.Context(), Selection{Tag: "t"})
	check(t, err)
}

func TestIndexChildren(t *testing.T) {
	linux, windows := oci.Platform{Architecture: "amd64", OS: "linux"}, oci.Platform{Architecture: "amd64", OS: "windows"}
	absent := func(p *oci.Platform) oci.Descriptor {
		return oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: sum("absent"), Size: 6, Platform: p}
	}
	listed := validation.Rules{Platforms: validation.PlatformsListed, PlatformList: []oci.Platform{linux}}
	tests := []struct {
		name       string
		validation validation.Rules
		child      oci.Descriptor
		want       oci.Code
	}{
		{"all", validation.Rules{}, absent(&linux), oci.CodeManifestBlobUnknown},
		{"all, without platform", validation.Rules{}, absent(nil), oci.CodeManifestBlobUnknown},
		{"none", validation.Rules{Platforms: validation.PlatformsNone}, absent(&linux), ""},
		{"disabled", validation.Rules{Disabled: true}, absent(&linux), ""},
		{"listed and absent", listed, absent(&linux), oci.CodeManifestBlobUnknown},
		{"not listed", listed, absent(&windows), ""},
		{"no platform", listed, absent(nil), ""},
		{"a blob as child", validation.Rules{}, oci.Descriptor{MediaType: "text/plain", Digest: sum("layer x"), Size: 7}, ""},
		{"an absent blob as child", validation.Rules{}, oci.Descriptor{MediaType: "text/plain", Digest: sum("absent"), Size: 7}, oci.CodeManifestBlobUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			repo := newRegistry(stores["memory"](t), Options{Validation: tt.validation}).Repository("a")
			present := put(t, repo, tagged("child"), simpleImage(t, repo, "x")).Descriptor
			for _, mediaType := range []string{oci.MediaTypeIndex, oci.MediaTypeDockerList} {
				m := image{MediaType: mediaType, Manifests: []oci.Descriptor{present, tt.child}}
				_, err := repo.PutManifest(context.Background(), tagged("index"), mediaType, m.bytes(), nil)
				if tt.want == "" {
					check(t, err)
				} else {
					wantCode(t, err, tt.want)
				}
			}
			present.Size++
			m := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{present}}
			if _, err := repo.PutManifest(context.Background(), tagged("index"), "", m.bytes(), nil); err == nil && tt.validation.Platforms == validation.PlatformsAll && !tt.validation.Disabled {
				t.Error("a child of another size is accepted")
			}
		})
	}
}

func TestLargeManifestIsReadOnce(t *testing.T) {
	ctx, d := context.Background(), stores["memory"](t)
	repo := newRegistry(d, Options{}).Repository("a")
	m := simpleImage(t, repo, "x")
	m.Annotations = map[string]string{"pad": strings.Repeat("x", 3<<20)}
	put(t, repo, tagged("t"), m)
	counting := &reads{both: d}
	repo = newRegistry(counting, Options{}).Repository("a")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := repo.Manifest(ctx, tagged("t"))
			if err != nil || !bytes.Equal(got.Bytes, m.bytes()) {
				t.Errorf("it comes back wrong: %v", err)
			}
		})
	}
	wg.Wait()
	if n := counting.large.Load(); n > 2 {
		t.Errorf("it was read %d times", n)
	}
}

// reads counts the large objects that are read.
type reads struct {
	both
	large atomic.Int64
}

func (r *reads) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := r.both.Open(ctx, key, offset, length)
	if err == nil && o.Size > smallManifest && length > smallManifest+1 {
		r.large.Add(1)
	}
	return o, err
}

func TestDamagedManifest(t *testing.T) {
	for _, damage := range []string{"", `{"schemaVersion":2}`} {
		onStores(t, func(t *testing.T, r *Registry) {
			ctx, repo := context.Background(), r.Repository("a")
			m := simpleImage(t, repo, "x")
			d := put(t, repo, tagged("t"), m).Descriptor.Digest
			repo = again(r, Options{}).Repository("a")
			overwrite(t, r, d, damage)
			_, err := repo.Manifest(ctx, tagged("t"))
			wantCode(t, err, oci.CodeUnknown)
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
			put(t, repo, tagged("t"), m)
			_, err = again(r, Options{}).Repository("a").Manifest(ctx, tagged("t"))
			check(t, err)
		})
	}
}

// What somebody else takes away is gone at once, whatever is in memory.
func TestNothingIsAnsweredFromMemoryAlone(t *testing.T) {
	for name, path := range map[string]func(oci.Digest) string{
		"tag":      func(oci.Digest) string { return layout.TagCurrent("a", "t") },
		"revision": func(d oci.Digest) string { return layout.RevisionLink("a", d) },
		"bytes":    layout.BlobData,
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, r *Registry) {
				ctx, repo := context.Background(), r.Repository("a")
				d := pushImage(t, repo, "t", "x")
				_, err := repo.Manifest(ctx, tagged("t"))
				check(t, err)
				check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: path(d), Delete: true}}))
				if name == "bytes" { // nobody takes them away alone, so they are looked at now and then
					r.now = func() time.Time { return time.Now().Add(bytesTrusted) }
				}
				_, err = repo.Manifest(ctx, tagged("t"))
				wantCode(t, err, oci.CodeManifestUnknown)
			})
		})
	}
}

func TestDeleteManifest(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		_, err := repo.DeleteManifest(ctx, sum("x"))
		wantCode(t, err, oci.CodeNameUnknown)
		d := pushImage(t, repo, "one", "x")
		pushImage(t, repo, "two", "x")
		other := pushImage(t, repo, "other", "y")
		pushImage(t, repo, "moved", "x")
		pushImage(t, repo, "moved", "y")
		for tag, content := range map[oci.Tag]string{"empty": "", "newline": string(other) + "\n", "rubbish": "x"} {
			check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.TagCurrent("a", tag), Content: []byte(content)}}))
		}
		removed, err := repo.DeleteManifest(ctx, d)
		check(t, err)
		if !slices.Equal(removed, []oci.Tag{"one", "two"}) {
			t.Errorf("removed %q", removed)
		}
		for _, ref := range []oci.Reference{{Digest: d}, tagged("one"), tagged("two")} {
			_, err := repo.Manifest(ctx, ref)
			wantCode(t, err, oci.CodeManifestUnknown)
		}
		for _, tag := range []string{"other", "moved", "newline"} {
			m, err := repo.Manifest(ctx, tagged(tag))
			check(t, err)
			if m.Digest != other {
				t.Errorf("%s is %s", tag, m.Digest)
			}
		}
		_, err = repo.DeleteManifest(ctx, d)
		wantCode(t, err, oci.CodeManifestUnknown)
		pushImage(t, repo, "again", "x")
		_, err = repo.Manifest(ctx, oci.Reference{Digest: d})
		check(t, err)
	})
}

// The last push to a tag wins, and acknowledged content is there.
func TestConcurrentPushesToOneTag(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		var images []image
		for i := range 8 {
			images = append(images, simpleImage(t, repo, fmt.Sprint(i)))
		}
		var wg sync.WaitGroup
		for _, m := range images {
			wg.Go(func() {
				for range 3 {
					put(t, repo, tagged("t"), m)
					got, err := repo.Manifest(ctx, tagged("t"))
					if err != nil {
						t.Error(err)
					} else if got.Digest != oci.SHA256.FromBytes(got.Bytes) {
						t.Errorf("the tag gives bytes that are not those of %s", got.Digest)
					}
				}
			})
		}
		wg.Wait()
		put(t, repo, tagged("t"), images[0])
		got, err := repo.Manifest(ctx, tagged("t"))
		check(t, err)
		if !bytes.Equal(got.Bytes, images[0].bytes()) {
			t.Error("the last push does not own the tag")
		}
	})
}

// After a deletion and a push that ran at the same time, the tag points at a
// manifest or is not there.
func TestDeletionAndPushDoNotTear(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		m := simpleImage(t, repo, "x")
		d := oci.SHA256.FromBytes(m.bytes())
		for range 20 {
			var wg sync.WaitGroup
			wg.Go(func() { put(t, repo, tagged("t"), m) })
			wg.Go(func() {
				if _, err := repo.DeleteManifest(ctx, d); err != nil && !oci.HasCode(err, oci.CodeManifestUnknown) && !oci.HasCode(err, oci.CodeNameUnknown) {
					t.Error(err)
				}
			})
			wg.Wait()
			tags, _, err := repo.Tags(ctx, -1, "")
			if err != nil && !oci.HasCode(err, oci.CodeNameUnknown) {
				t.Fatal(err)
			}
			_, err = repo.Manifest(ctx, tagged("t"))
			if exists := err == nil; exists != slices.Contains(tags, "t") {
				t.Fatalf("the tag is listed as %q, but reading it gives %v", tags, err)
			}
		}
	})
}

func FuzzPutManifest(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"schemaVersion":2}`, `{"schemaVersion":2,"config":{"digest":"sha256:"}}`, `{"schemaVersion":2,"manifests":[{}]}`,
		`{"schemaVersion":2,"config":null,"layers":[null]}`, `{"schemaVersion":2,"subject":{"digest":"sha256:a"},"manifests":[]}`,
		`{"schemaVersion":2,"config":{"digest":"` + string(sum("config x")) + `","size":8},"layers":[]}`,
	} {
		f.Add([]byte(s), oci.MediaTypeManifest)
		f.Add([]byte(s), oci.MediaTypeIndex)
	}
	repo := newRegistry(stores["memory"](f), Options{}).Repository("a")
	pushBlob(f, repo, "config x")
	f.Fuzz(func(t *testing.T, body []byte, mediaType string) {
		ctx := context.Background()
		res, err := repo.PutManifest(ctx, tagged("t"), mediaType, body, nil)
		if err != nil {
			var one *oci.Error
			var several oci.Errors
			if !errors.As(err, &several) && (!errors.As(err, &one) || one.Code == oci.CodeUnknown) {
				t.Fatalf("a client's mistake ends as %v", err)
			}
			return
		}
		m, err := again(repo.reg, Options{}).Repository("a").Manifest(ctx, tagged("t"))
		check(t, err)
		if !bytes.Equal(m.Bytes, body) || m.MediaType != res.Descriptor.MediaType {
			t.Fatalf("%q comes back as %q, %q as %q", body, m.Bytes, res.Descriptor.MediaType, m.MediaType)
		}
		if _, _, err := repo.Referrers(ctx, sum("x"), "", "", 0); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLongTagHistory(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		long := strings.Repeat("t", oci.MaxTagLength)
		repo := r.Repository(oci.Name(strings.Repeat("a/", 127) + "b"))
		pushImage(t, repo, long, "x")
		pushImage(t, repo, long, "y")
		tags, _, err := repo.Tags(context.Background(), -1, "")
		check(t, err)
		if !slices.Equal(tags, []string{long}) {
			t.Errorf("listed %q", tags)
		}
	})
}
