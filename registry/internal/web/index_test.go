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
	b.want(200, "Last push", "70.8 kB")
	b.get("/ui/repository/web/db")
	b.want(200, "70.8 kB in 4 blobs and manifests")
	b.get("/ui/usage")
	b.want(200, "2 repositories with", "web/app", "web/db", `max="70`)
}

// TestUsage_Hidden: the sizes of what a visitor may not pull are none of theirs, neither one by one nor in sum.
func TestUsage_Hidden(t *testing.T) {
	s := newSite(t, indexed)
	s.image("web/app", "v1", nil, strings.Repeat("x", 3000))
	s.image("secret/plans", "v1", nil, strings.Repeat("y", 70_000))
	b := s.as("bob")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b.get("/ui/usage"); strings.Contains(b.page, "web/app") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no sizes appear")
		}
	}
	b.want(200, "1 repository with 3.", "-secret/plans")
	b = s.browser()
	b.get("/ui/usage")
	b.want(200, "-web/app", "There is no repository that you may see.")
}
