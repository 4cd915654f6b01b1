package ocilayout

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRegistry(m *memory.Memory) *registry.Registry {
	return registry.New(registry.Options{Store: m})
}

func write(t *testing.T, s storage.Store, objects map[string]string) {
	t.Helper()
	for key, content := range objects {
		check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content)}}))
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func put(t *testing.T, repo registry.Repository, tags []oci.Tag, m map[string]any) oci.Descriptor {
	t.Helper()
	m["schemaVersion"] = 2
	return registrytest.PutManifest(t, repo, m, tags...)
}

func image(t *testing.T, repo registry.Repository, layer string, subject *oci.Descriptor, tags ...oci.Tag) oci.Descriptor {
	t.Helper()
	config := registrytest.Push(t, repo, "config of "+layer)
	config.MediaType = "application/vnd.oci.image.config.v1+json"
	m := map[string]any{"mediaType": oci.MediaTypeManifest, "config": config, "layers": []any{registrytest.Push(t, repo, layer)}}
	if subject != nil {
		m["subject"] = subject
	}
	return put(t, repo, tags, m)
}

// fill pushes an index with a signature that has one itself, and a plain image
// with two tags.
func fill(t *testing.T, repo registry.Repository) {
	t.Helper()
	list := put(t, repo, []oci.Tag{"multi"}, map[string]any{
		"mediaType": oci.MediaTypeIndex,
		"manifests": []oci.Descriptor{image(t, repo, "amd64", nil), image(t, repo, "arm64", nil, "arm64")},
	})
	signature := image(t, repo, "signature", &list)
	image(t, repo, "signature of the signature", &signature)
	image(t, repo, "plain", nil, "v1", "latest")
}

// contents returns everything that can be pulled: tags and their targets, referrers of all.
func contents(t *testing.T, repo registry.Repository) map[string]string {
	t.Helper()
	all := map[string]string{}
	tags, _, err := repo.Tags(t.Context(), -1, "")
	check(t, err)
	for _, tag := range tags {
		m, err := repo.Manifest(t.Context(), oci.Reference{Tag: oci.Tag(tag)})
		check(t, err)
		all[tag] = string(m.Bytes)
		referrers(t, repo, m.Digest, tag, all)
	}
	return all
}

func referrers(t *testing.T, repo registry.Repository, d oci.Digest, path string, all map[string]string) {
	t.Helper()
	list, _, err := repo.Referrers(t.Context(), d, "", "", 0)
	check(t, err)
	for _, r := range list {
		m, err := repo.Manifest(t.Context(), oci.Reference{Digest: r.Digest})
		check(t, err)
		all[path+"<"] = string(m.Bytes)
		referrers(t, repo, r.Digest, path+"<", all)
	}
}

func TestThereAndBack(t *testing.T) {
	for _, file := range []string{"dir", "file.tar"} {
		t.Run(file, func(t *testing.T) {
			m := memory.New()
			rules := newRegistry(m)
			from, to := rules.Repository("team/app"), newRegistry(memory.New()).Repository("copy")
			fill(t, from)
			path := filepath.Join(t.TempDir(), file)
			out, err := Export(t.Context(), puller(rules), []Item{{Name: "team/app"}}, path)
			check(t, err)
			if out.Tags != 4 || out.Manifests != 6 || out.Blobs != 10 || len(out.Notes) != 0 {
				t.Errorf("exported %+v", out)
			}
			in, err := Import(t.Context(), path, to, ImportOptions{})
			check(t, err)
			if in.Tags != 4 || in.Manifests != 6 || in.Blobs != 10 {
				t.Errorf("imported %+v", in)
			}
			want, got := contents(t, from), contents(t, to)
			if len(want) != 6 || len(got) != len(want) {
				t.Fatalf("got %d things, want %d", len(got), len(want))
			}
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%s differs", name)
				}
			}
			if again, err := Import(t.Context(), path, to, ImportOptions{}); err != nil || again.Blobs != 0 || again.Tags != 4 {
				t.Errorf("a second time: %+v, %v", again, err)
			}
			if _, err := Export(t.Context(), puller(rules), []Item{{Name: "team/app"}}, path); !errors.Is(err, os.ErrExist) {
				t.Errorf("over a layout: %v", err)
			}
		})
	}
}

// A tag of a manifest that is missing keeps no other from being exported, unless
// it was asked for by its name.
func TestDanglingTagIsLeftOut(t *testing.T) {
	m := memory.New()
	rules := newRegistry(m)
	image(t, rules.Repository("a"), "x", nil, "v1")
	gone := image(t, rules.Repository("a"), "y", nil, "gone")
	image(t, rules.Repository("a"), "z", nil, "v2")
	check(t, m.Apply(t.Context(), nil, storage.Stage{{Key: layout.RevisionLink("a", gone.Digest), Delete: true}}))
	out, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, t.TempDir())
	check(t, err)
	if out.Tags != 2 || !slices.Equal(out.Notes, []string{"a:gone leads to a manifest that is not there"}) {
		t.Errorf("exported %+v", out)
	}
	if _, err := Export(t.Context(), puller(rules), []Item{{Name: "a", Ref: oci.Reference{Tag: "gone"}}}, t.TempDir()); err == nil {
		t.Error("a tag that was asked for is left out")
	}
}

// With several repositories the names of the entries hold them.
func TestSeveralRepositories(t *testing.T) {
	rules := newRegistry(memory.New())
	image(t, rules.Repository("a"), "x", nil, "v1")
	image(t, rules.Repository("b"), "y", nil, "v2", "other")
	dir := t.TempDir()
	out, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}, {Name: "b", Ref: oci.Reference{Tag: "v2"}}}, dir)
	check(t, err)
	if out.Tags != 2 {
		t.Errorf("exported %+v", out)
	}
	content, err := os.ReadFile(filepath.Join(dir, indexFile))
	check(t, err)
	if !strings.Contains(string(content), `"a:v1"`) || !strings.Contains(string(content), `"b:v2"`) {
		t.Errorf("the index is %s", content)
	}
	if _, err := Import(t.Context(), dir, rules.Repository("c"), ImportOptions{}); !errors.Is(err, ErrSeveral) || !strings.HasSuffix(err.Error(), ": a, b") {
		t.Errorf("two repositories into one: %v", err)
	}
	if _, _, err := rules.Repository("c").Tags(t.Context(), -1, ""); !oci.HasCode(err, oci.CodeNameUnknown) {
		t.Errorf("the refused import has written something: %v", err)
	}
	_, err = Import(t.Context(), dir, rules.Repository("c"), ImportOptions{Merge: true})
	check(t, err)
	if tags, _, err := rules.Repository("c").Tags(t.Context(), -1, ""); err != nil || !slices.Equal(tags, []string{"v1", "v2"}) {
		t.Errorf("tags are %v, %v", tags, err)
	}
}

func TestDamageIsNotExported(t *testing.T) {
	m := memory.New()
	rules := newRegistry(m)
	image(t, rules.Repository("a"), "layer", nil, "v1")
	write(t, m, map[string]string{layout.BlobData(sum("layer")): "LAYER"})
	for _, name := range []string{"dir", "file.tar"} {
		path := filepath.Join(t.TempDir(), name)
		if _, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, path); err == nil {
			t.Errorf("%s: no error", name)
		}
		for _, left := range []string{path + "/" + indexFile, path + "/" + blobFile(sum("layer"))} {
			if _, err := os.Stat(left); err == nil {
				t.Errorf("%s was left", left)
			}
		}
	}
}

func TestWhatIsNoLayout(t *testing.T) {
	repo := newRegistry(memory.New()).Repository("a")
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	write("x/oci-layout", version)
	write("bad/oci-layout", version)
	write("bad/index.json", "{")
	write("two/oci-layout", version)
	write("two/index.json", `{"manifests":[{"digest":"`+string(sum("a"))+`","annotations":{"org.opencontainers.image.ref.name":"v1"}},{"digest":"`+string(sum("b"))+`","annotations":{"org.opencontainers.image.ref.name":"v1"}}]}`)
	write("climb/oci-layout", version)
	write("climb/index.json", `{"manifests":[{"digest":"../../etc/passwd"}]}`)
	for path, want := range map[string]string{
		dir + "/none":                         "no such file",
		dir:                                   ErrNotLayout.Error(),
		dir + "/x":                            ErrNotLayout.Error(),
		dir + "/bad":                          ErrNotLayout.Error(),
		dir + "/two":                          "two manifests for the tag v1",
		dir + "/climb":                        "DIGEST_INVALID",
		write("gz.tar", "\x1f\x8b not a tar"): ErrNotLayout.Error(),
	} {
		if _, err := Import(t.Context(), path, repo, ImportOptions{Untagged: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// An archive that was cut off is called truncated, wherever it was cut.
func TestTruncatedArchive(t *testing.T) {
	rules := newRegistry(memory.New())
	image(t, rules.Repository("a"), "x", nil, "v1")
	path := filepath.Join(t.TempDir(), "a.tar")
	_, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, path)
	check(t, err)
	whole, err := os.ReadFile(path)
	check(t, err)
	for _, size := range []int{520, 1024 + 100, 1536 + 3} { // in the first member, in a header, in a member
		check(t, os.WriteFile(path, whole[:size], 0o600))
		if _, err := Import(t.Context(), path, rules.Repository("b"), ImportOptions{}); err == nil || !strings.Contains(err.Error(), "the archive is truncated") || strings.Contains(err.Error(), "compressed") {
			t.Errorf("after %d bytes: %v", size, err)
		}
	}
}

// A directory of other files is left alone; what an interrupted export has left is
// completed.
func TestExportIntoADirectoryOfOtherFiles(t *testing.T) {
	rules := newRegistry(memory.New())
	image(t, rules.Repository("a"), "x", nil, "v1")
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600))
	if _, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, dir); err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("it ended with %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("it left %v, %v", entries, err)
	}
	begun := t.TempDir()
	check(t, os.WriteFile(filepath.Join(begun, versionFile), []byte(version), 0o600))
	if _, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, begun); err != nil {
		t.Errorf("a layout that was begun: %v", err)
	}
}

func TestParseItem(t *testing.T) {
	d := sum("x")
	for s, want := range map[string]Item{
		"a/b":            {Name: "a/b"},
		"a/b:v1":         {Name: "a/b", Ref: oci.Reference{Tag: "v1"}},
		"a@" + string(d): {Name: "a", Ref: oci.Reference{Digest: d}},
	} {
		if got, err := ParseItem(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "A", "a:", "a:-", "a@v1", ":v1"} {
		if got, err := ParseItem(s); err == nil {
			t.Errorf("%s: %+v", s, got)
		}
	}
}

// BuildKit keeps its cache as an index of layers, which are no manifests.
func TestIndexOfBlobs(t *testing.T) {
	for _, file := range []string{"dir", "file.tar"} {
		rules := newRegistry(memory.New())
		from, to := rules.Repository("a"), newRegistry(memory.New()).Repository("copy")
		layer, config := registrytest.Push(t, from, "layer"), registrytest.Push(t, from, "config")
		layer.MediaType, config.MediaType = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.buildkit.cacheconfig.v0"
		list := put(t, from, []oci.Tag{"cache"}, map[string]any{"mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{layer, config}})
		path := filepath.Join(t.TempDir(), file)
		out, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, path)
		check(t, err)
		if out.Manifests != 1 || out.Blobs != 2 || len(out.Notes) != 0 {
			t.Errorf("%s: exported %+v", file, out)
		}
		in, err := Import(t.Context(), path, to, ImportOptions{})
		check(t, err)
		if in.Manifests != 1 || in.Blobs != 2 {
			t.Errorf("%s: imported %+v", file, in)
		}
		if m, err := to.Manifest(t.Context(), oci.Reference{Tag: "cache"}); err != nil || m.Digest != list.Digest {
			t.Errorf("%s: got %+v, %v", file, m, err)
		}
	}
}

// A manifest of schema 1, which volumes of distribution 2 hold, has its layers
// with it.
func TestSchema1IsExported(t *testing.T) {
	m := memory.New()
	rules := newRegistry(m)
	image(t, rules.Repository("a"), "new", nil, "v2")
	registrytest.Push(t, rules.Repository("a"), "old")
	old := `{"schemaVersion":1,"name":"a","tag":"v1","fsLayers":[{"blobSum":"` + string(sum("old")) + `"}]}`
	write(t, m, map[string]string{
		layout.BlobData(sum(old)):          old,
		layout.RevisionLink("a", sum(old)): string(sum(old)),
		layout.TagCurrent("a", "v1"):       string(sum(old)),
	})
	dir := t.TempDir()
	_, err := Export(t.Context(), puller(rules), []Item{{Name: "a", Ref: oci.Reference{Tag: "v1"}}}, dir)
	check(t, err)
	if content, err := os.ReadFile(filepath.Join(dir, blobFile(sum("old")))); err != nil || string(content) != "old" {
		t.Errorf("its layer is %q, %v", content, err)
	}
}

// A layer that may lie elsewhere is exported if it is here.
func TestLayersElsewhere(t *testing.T) {
	rules := newRegistry(memory.New())
	repo := rules.Repository("a")
	here, there := registrytest.Push(t, repo, "here"), oci.Descriptor{Digest: sum("there"), Size: 5}
	for _, d := range []*oci.Descriptor{&here, &there} {
		d.MediaType, d.URLs = oci.MediaTypeDockerForeignLayer, []string{"https://layers.example/x"}
	}
	put(t, repo, []oci.Tag{"v1"}, map[string]any{"mediaType": oci.MediaTypeDockerManifest, "config": registrytest.Push(t, repo, "config"), "layers": []any{here, there}})
	dir := t.TempDir()
	out, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, dir)
	check(t, err)
	if len(out.Notes) != 1 || !strings.HasSuffix(out.Notes[0], " refers to "+string(there.Digest)+", which is not there") {
		t.Errorf("exported %+v", out)
	}
	to := newRegistry(memory.New()).Repository("b")
	in, err := Import(t.Context(), dir, to, ImportOptions{})
	check(t, err)
	if _, err := to.StatBlob(t.Context(), here.Digest); err != nil || in.Blobs != 2 {
		t.Errorf("imported %+v, %v", in, err)
	}
}

// What distribution has stored without looking at it keeps nothing from being
// exported.
func TestDigestsThatAreNone(t *testing.T) {
	m := memory.New()
	rules := newRegistry(m)
	image(t, rules.Repository("a"), "good", nil, "v2")
	for tag, content := range map[oci.Tag]string{
		"v0": `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","config":{"digest":"x"},"layers":[{"digest":"sha256:ab"}]}`,
		"v1": `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[{"digest":"x"}]}`,
	} {
		write(t, m, map[string]string{
			layout.BlobData(sum(content)):          content,
			layout.RevisionLink("a", sum(content)): string(sum(content)),
			layout.TagCurrent("a", tag):            string(sum(content)),
		})
	}
	out, err := Export(t.Context(), puller(rules), []Item{{Name: "a"}}, t.TempDir())
	if err != nil || out.Tags != 3 || out.Manifests != 3 {
		t.Errorf("exported %+v, %v", out, err)
	}
}

// containerd keeps names with digests, which are no tags.
func TestTagIn(t *testing.T) {
	at := "@" + string(sum("x"))
	for name, want := range map[string]oci.Tag{
		"v1": "v1", "a/b:v1": "v1", "localhost:5000/a:v1": "v1", "localhost:5000/a": "", "a/b": "",
		"a:v1" + at: "v1", "docker.io/library/a" + at: "", "a" + at: "", "localhost:5000/a" + at: "", at: "", "": "",
	} {
		if got, err := tagIn(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A tar file that cannot be finished leaves nothing behind.
func TestUnfinishedTar(t *testing.T) {
	dir := t.TempDir()
	file, err := create(filepath.Join(dir, "x.tar"))
	check(t, err)
	check(t, file.put("a", 1, strings.NewReader("a")))
	check(t, os.MkdirAll(filepath.Join(dir, "x.tar", "sub"), 0o755))
	if err := file.finish(); err == nil {
		t.Error("it was finished")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
}

func puller(rules *registry.Registry) func(oci.Name) registry.Puller {
	return func(name oci.Name) registry.Puller { return rules.Repository(name) }
}
