package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

// TestUndo: after the deletion of a tag, an image or a repository, the next page has a button that restores it.
func TestUndo(t *testing.T) {
	s := newSite(t, keepDeleted)
	old := s.image("web/app", "v1", nil, "old")
	now := s.image("web/app", "v1", nil, "new")
	s.image("web/app", "v2", nil, "other")
	b := s.as("alice")
	b.get("/ui/history/web/app:v1")
	b.want(200, "current", short(old.Digest), short(now.Digest), "Point the tag here")
	b.post("/ui/restore/web/app", "tag", "v1", "digest", string(old.Digest))
	b.want(200, "Restored.", short(old.Digest))

	b.get("/ui/delete/web/app:v1")
	b.want(200, "It can be restored for 2 days.")
	b.post("/ui/delete/web/app:v1")
	b.want(200, "Deleted.", "Deleted from web/app", "v1", "Restore")
	restore(b)
	b.want(200, "Restored.", ">v1</a>")

	b.get("/ui/delete/web/app")
	b.post("/ui/delete/web/app")
	b.want(200, "The whole repository", "Restore all", "v1", "v2")
	b.get("/ui/trash")
	b.want(200, `href="/ui/trash/web/app">web/app</a>`, `action="/ui/restore/web/app"`)
	for _, who := range []string{"bob", "nobody", ""} {
		other := s.browser()
		if who != "" {
			other = s.as(who)
			other.get("/ui/trash")
			other.want(200, "-web/app")
		}
		other.get("/ui/trash/web/app")
		other.want(404)
		other.post("/ui/restore/web/app")
		if other.status != 403 && other.status != 404 {
			t.Errorf("%q restores: %d", who, other.status)
		}
	}
	b.get("/ui/trash/web/app")
	restore(b)
	b.want(200, "Restored.", ">v1</a>", ">v2</a>")
	b.get("/ui/trash/web/app")
	b.want(200, "all of it is back")
	if d, ok := s.rules.Repository("web/app").TagTarget(t.Context(), oci.Tag("v1")); !ok || d != old.Digest {
		t.Errorf("v1 is at %s", d)
	}
}

// TestUndo_InPart: after a restore that leaves images out, the page lists them.
func TestUndo_InPart(t *testing.T) {
	s := newSite(t, keepDeleted)
	s.image("web/app", "intact", nil, "one")
	s.image("web/app", "broken", nil, "two")
	repo := s.rules.Repository("web/app")
	if err := errors.Join(repo.DeleteBlob(t.Context(), oci.SHA256.FromBytes([]byte("two"))), repo.Delete(t.Context())); err != nil {
		t.Fatal(err)
	}
	b := s.as("alice")
	b.get("/ui/trash/web/app")
	restore(b)
	b.want(200, "Restored in part.", "broken", "-intact")
}

// restore presses the first button that restores.
func restore(b *browser) {
	b.Helper()
	_, rest, ok := strings.Cut(b.page, `name="deletion" value="`)
	if !ok {
		b.Fatalf("there is nothing to restore:\n%s", b.page)
	}
	id, _, _ := strings.Cut(rest, `"`)
	b.post("/ui/restore/web/app", "deletion", id)
}

// TestManyDeletions: a page names the latest only.
func TestManyDeletions(t *testing.T) {
	s := newSite(t, keepDeleted)
	repo := s.rules.Repository("web/app")
	for i := range maxDeletions + 2 {
		s.image("web/app", oci.Tag(fmt.Sprint("v", i)), nil, "x")
		if _, err := repo.DeleteTag(t.Context(), oci.Tag(fmt.Sprint("v", i))); err != nil {
			t.Fatal(err)
		}
	}
	b := s.as("alice")
	b.get("/ui/trash/web/app")
	b.want(200, "latest deletions only")
	if n := strings.Count(b.page, `name="deletion"`); n != maxDeletions {
		t.Errorf("it names %d deletions", n)
	}
	b.get("/ui/trash")
	b.want(200, "100 or more")
}
