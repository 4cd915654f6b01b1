package web

import (
	"fmt"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

// TestUntagged: the page lists the images that no tag leads to, for visitors who may push, each once: not the parts of a listed index, not
// what is attached to a listed image, and nothing that a tag holds.
func TestUntagged(t *testing.T) {
	s := newSite(t)
	old := s.image("web/app", "v1", nil, "old")
	b := s.as("alice")
	now := s.image("web/app", "v1", nil, "new")
	part := s.image("web/app", "part", nil, "part")
	whole := s.put("web/app", oci.Reference{Tag: "multi"}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{part}})
	attached := s.put("web/app", oci.Reference{Tag: "attached"}, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{}, "subject": old, "artifactType": "text/plain",
	})
	for _, tag := range []oci.Tag{"part", "attached"} {
		if _, err := s.rules.Repository("web/app").DeleteTag(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/ui/repository/web/app")
	b.want(200, `href="/ui/untagged/web/app"`)
	b.get("/ui/untagged/web/app")
	b.want(200, "1 untagged image", `href="/ui/image/web/app@`+string(old.Digest)+`"`, "linux/amd64", "-"+short(now.Digest), "-"+short(part.Digest), "-"+short(whole.Digest), "-"+short(attached.Digest))
	if _, err := s.rules.Repository("web/app").DeleteTag(t.Context(), "multi"); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/untagged/web/app")
	b.want(200, "2 untagged images", short(whole.Digest), ">index", "-"+short(part.Digest))
	if first, second := strings.Index(b.page, short(whole.Digest)), strings.Index(b.page, short(old.Digest)); first > second {
		t.Error("the last push isn't the first")
	}
	for _, who := range []string{"bob", ""} {
		other := s.browser()
		if who != "" {
			other = s.as(who)
			other.get("/ui/repository/web/app")
			other.want(200, "-/ui/untagged")
		}
		other.get("/ui/untagged/web/app")
		other.want(404)
	}
	b.get("/ui/untagged/web/nothing")
	b.want(404)
	for i := range maxUntagged + 1 {
		s.put("web/app", oci.Reference{Tag: oci.Tag(fmt.Sprint("t", i))}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{}})
	}
	b.get("/ui/untagged/web/app")
	b.want(200, "Too many to list")
}
