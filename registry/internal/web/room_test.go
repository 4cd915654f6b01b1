package web

import (
	"fmt"
	"strings"
	"testing"

	"slipway/registry/internal/web/image"
)

// Pages share a bounded memory: one that finds none is refused, and each gives back what it took.
func TestMemoryOfPages(t *testing.T) {
	s := newSite(t, keepDeleted)
	s.image("public/app", "v1", nil, "x")
	s.image("public/app", "v2", nil, "y")
	var held []func()
	for i := range pagesMemory / pagesShare {
		room, err := s.pages.memory.Reserve(t.Context(), fmt.Sprint("client ", i), pagesShare)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, room.Release)
	}
	b := s.browser()
	b.get("/ui/image/public/app:v1")
	b.want(503, "Too many large requests")
	for _, release := range held {
		release()
	}
	b = s.as("owner")
	for _, path := range []string{
		"/ui/", "/ui/?q=app", "/ui/repository/public/app", "/ui/repository/public/app?sort=size", "/ui/image/public/app:v1", "/ui/image/public/app:none",
		"/ui/compare/public/app?a=v1&b=v2", "/ui/compare/public/app?a=v1&b=none", "/ui/trash", "/ui/trash/public/app", "/ui/history/public/app:v1",
	} {
		b.get(path)
		b.want(map[bool]int{false: 200, true: 404}[strings.Contains(path, "none")])
	}
	for i := range pagesMemory / pagesShare {
		if _, err := s.pages.memory.Reserve(t.Context(), fmt.Sprint("another client ", i), pagesShare); err != nil {
			t.Fatalf("a page keeps memory: %v", err)
		}
	}
}

// The room for an image grows with what is read, and a share is enough for any.
func TestRoom(t *testing.T) {
	if most := image.Room(2<<20, image.MaxConfig) + rawFactor*maxRaw + referrerBytes; most > pagesShare {
		t.Errorf("an image of 2 MiB needs %d bytes, more than a share", most)
	}
	if little := image.Room(2<<10, 10<<10); little > 1<<20 {
		t.Errorf("a usual image takes %d bytes", little)
	}
}

// A search is bounded: each word is looked for in each name.
func TestSearch_Bounds(t *testing.T) {
	s := newSite(t)
	s.image("public/app", "v1", nil, "x")
	b := s.browser()
	b.get("/ui/?q=" + strings.Repeat("a+", 9) + "p")
	b.want(200, "public/app")
	for _, query := range []string{strings.Repeat("a+", 10) + "p", strings.Repeat("a", 1001)} {
		b.get("/ui/?q=" + query)
		b.want(400, "at most ten words")
	}
}
