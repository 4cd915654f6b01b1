package web

import (
	"strings"
	"testing"
	"time"
)

// Once the storage was read, which the first view of the list begins, lists show sizes and dates.
func TestSizesInLists(t *testing.T) {
	s := newSite(t, open, indexed)
	s.image("web/app", "v1", nil, strings.Repeat("x", 3000), "shared")
	s.image("web/db", "v1", nil, strings.Repeat("y", 70_000), "shared")
	b := s.browser()
	b.get("/ui/?in=web/")
	b.want(200, "web/app", "-Only here")
	for end := time.Now().Add(30 * time.Second); !strings.Contains(b.page, "Only here"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no sizes appear")
		}
		b.get("/ui/?in=web/")
	}
	b.want(200, "Last push", "just now", "70.8 kB")
	b.get("/ui/repository/web/db")
	b.want(200, "70.8 kB in 4 blobs and manifests")
}
