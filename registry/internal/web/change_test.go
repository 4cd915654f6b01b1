package web

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/oci"

	"go.uber.org/zap"
)

// TestRights: each page offers what its visitor may do, and each form is refused to the others.
func TestRights(t *testing.T) {
	s := newSite(t)
	m := s.image("web/app", "v1", nil, "x")
	s.image("web/app", "kept-1", nil, "y")
	s.image("public/base", "v1", nil, "z")
	for _, who := range []string{"", "bob", "nobody"} {
		b := s.browser()
		if who != "" {
			b = s.as(who)
		}
		b.get("/ui/image/public/base:v1")
		b.want(200, "-Set tag", "-Delete the")
		csrf := b.page
		for _, path := range []string{"/ui/delete/public/base", "/ui/delete/public/base:v1", "/ui/delete/web/app:v1", "/ui/delete/web/app@" + string(m.Digest)} {
			if b.get(path); b.status != 404 {
				t.Errorf("%q sees %s: %d", who, path, b.status)
			}
			b.page = csrf
			if b.post(path); b.status != 404 && b.status != 403 {
				t.Errorf("%q sends %s: %d", who, path, b.status)
			}
		}
		b.page = csrf
		if b.post("/ui/tag/public/base:v1", "tag", "v2"); b.status != 403 {
			t.Errorf("%q sets a tag: %d", who, b.status)
		}
	}
	alice := s.as("alice")
	alice.get("/ui/image/web/app:v1")
	alice.want(200, "Set tag", "Delete the tag…", "Delete the image…")
	page := alice.page
	alice.post("/ui/tag/web/app:v1", "repository", "public/base", "tag", "v2")
	alice.want(403, "You may not push there.")
	alice.page = page
	alice.get("/ui/image/web/app:kept-1")
	alice.want(200, "Neither moved nor deleted, by <code>storage.maintenance.immutable[0]</code>")
	alice.get("/ui/image/web/app:v1")
	alice.want(200, "-storage.maintenance.immutable")
	alice.post("/ui/tag/web/app:v1", "repository", "web/app", "tag", "kept-1")
	alice.want(409, "immutable")
	alice.page = page
	alice.post("/ui/delete/web/app:kept-1")
	alice.want(409, "immutable")
	alice.page = ""
	alice.post("/ui/delete/web/app:v1")
	alice.want(403, "out of date")
	alice.get("/ui/repository/web/app")
	alice.want(200, "2 tags")
}

func TestDelete(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	s := newSite(t, func(c *setup) { c.api.Audit, c.pages.Audit = acts, acts })
	m := s.image("web/app", "v1", nil, "x")
	raw, err := s.rules.Repository("web/app").Peek(t.Context(), oci.Reference{Tag: "v1"})
	if err == nil {
		_, err = s.rules.Repository("web/app").PutManifest(t.Context(), oci.Reference{Tag: "v2"}, raw.MediaType, raw.Bytes, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.image("web/app", "v3", nil, "z")
	b := s.as("alice")
	b.get("/ui/delete/web/app:v1")
	b.want(200, "Delete the tag v1?", "Keep it", "by its digest and under v2:")
	b.post("/ui/delete/web/app:v1")
	b.want(200, "Deleted.", "2 tags", "->v1</a>")
	b.get("/ui/delete/web/app:v2")
	b.want(200, "by its digest:")
	b.post("/ui/delete/web/app:v2", "digest", string(oci.SHA256.FromBytes(nil)))
	b.want(409, "another image than the one that was shown")
	b.get("/ui/delete/web/app:v2")
	b.want(200, `name="digest" value="`+string(m.Digest)+`"`)
	b.get("/ui/delete/web/app@" + string(m.Digest))
	b.want(200, "Delete the image", "<strong>v2</strong>")
	b.post("/ui/delete/web/app@" + string(m.Digest))
	b.want(200, "1 tag,", ">v3</a>")
	b.get("/ui/delete/web/app")
	b.want(200, "Delete the repository web/app?", "with 1 tag.")
	b.post("/ui/delete/web/app")
	b.want(200, "Deleted.", "-web/app")
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"event":"login","who":"alice"`, `"event":"delete","who":"alice"`, `"repository":"web/app","reference":"v1"`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, lines.String())
		}
	}
}

func TestTagAndCopy(t *testing.T) {
	s := newSite(t)
	a := s.image("web/app", "amd64", nil, "base", "amd")
	index := s.put("web/app", oci.Reference{Tag: "multi"}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{a}})
	s.image("web/app", "moved", nil, "old")
	b := s.as("alice")
	b.get("/ui/image/web/app:multi")
	b.post("/ui/tag/web/app:multi", "tag", "latest")
	b.want(200, "The tag is set.", string(index.Digest))
	b.post("/ui/tag/web/app@"+string(index.Digest), "tag", "moved")
	b.want(200, "The tag is set.", string(index.Digest))
	b.post("/ui/tag/web/app:multi", "tag", "1.0", "repository", "web/copy")
	b.want(200, "web/copy", string(index.Digest))
	if b.at != "/ui/image/web/copy:1.0?done=tagged" {
		t.Errorf("the copy is at %s", b.at)
	}
	b.get("/ui/image/web/copy@" + string(a.Digest))
	b.want(200, "RUN make layer-1")
	if _, err := s.rules.Repository("web/copy").StatBlob(t.Context(), oci.SHA256.FromBytes([]byte("amd"))); err != nil {
		t.Errorf("a layer is not in the copy: %v", err)
	}
	for _, wrong := range [][2]string{{"web/copy", "no tag"}, {"web/COPY", "v1"}, {"web/copy", ""}} {
		b.get("/ui/image/web/app:multi")
		b.post("/ui/tag/web/app:multi", "repository", wrong[0], "tag", wrong[1])
		b.want(400, "This is not")
	}
	// A copy takes only from where its maker may pull.
	s.image("secret/plans", "v1", nil, "plans")
	b.get("/ui/image/web/app:multi")
	b.post("/ui/tag/secret/plans:v1", "repository", "web/stolen", "tag", "v1")
	b.want(404)
}

// TestCopy_EachDigestOnce: an index that names one manifest thousands of times, and that one layer, costs
// one act each.
func TestCopy_EachDigestOnce(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	s := newSite(t, func(c *setup) { c.api.Audit, c.pages.Audit = acts, acts })
	layer := s.blob("web/app", []byte("layer"), "application/vnd.oci.image.layer.v1.tar+gzip")
	image := s.image("web/app", "one", func(_, manifest map[string]any) { manifest["layers"] = slices.Repeat([]oci.Descriptor{layer}, 1000) })
	s.put("web/app", oci.Reference{Tag: "multi"}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": slices.Repeat([]oci.Descriptor{image}, 9000)})
	b := s.as("alice")
	b.get("/ui/image/web/app:multi")
	b.want(200, "8500 more entries")
	b.post("/ui/tag/web/app:multi", "tag", "1.0", "repository", "web/copy")
	b.want(200, "web/copy", "The tag is set.")
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(lines.String(), `"repository":"web/copy"`); n != 4 { // layer, configuration, image, index
		t.Errorf("the copy took %d acts", n)
	}
}

// TestNothingChanges: where the registry can't be changed no page offers it.
func TestNothingChanges(t *testing.T) {
	for what, change := range map[string]func(*setup){
		"read-only":   func(c *setup) { c.api.ReadOnly, c.pages.ReadOnly = true, true },
		"no deletion": func(c *setup) { c.api.DeleteEnabled, c.pages.DeleteEnabled = false, false },
		"a cache":     func(c *setup) { c.pages.Caches = func(oci.Name) bool { return true } },
	} {
		s := newSite(t, change)
		s.image("web/app", "v1", nil, "x")
		b := s.as("alice")
		b.get("/ui/image/web/app:v1")
		b.want(200, "-Delete the")
		if found := strings.Contains(b.page, "Set tag"); found != (what == "no deletion") {
			t.Errorf("%s: offers to set a tag: %v", what, found)
		}
		b.get("/ui/delete/web/app:v1")
		b.want(404)
	}
}

// TestOpen_Forms: also where nobody logs in, a form needs the token of its page.
func TestOpen_Forms(t *testing.T) {
	s := newSite(t, open)
	administrator := s.browser()
	administrator.get("/ui/")
	administrator.want(200, ">State</a>", ">Maintenance</a>", "->Audit</a>")
	s.image("a", "v1", nil, "x")
	b := s.browser()
	b.post("/ui/delete/a:v1")
	b.want(403, "out of date")
	b.get("/ui/delete/a:v1")
	b.post("/ui/delete/a:v1")
	b.want(200, "Deleted.")
}
