package web

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/web/imageinfo"
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
	if most := imageinfo.Room(2<<20, imageinfo.MaxConfig) + rawFactor*maxRaw + referrerBytes; most > pagesShare {
		t.Errorf("an image of 2 MiB needs %d bytes, more than a share", most)
	}
	if little := imageinfo.Room(2<<10, 10<<10); little > 1<<20 {
		t.Errorf("a usual image takes %d bytes", little)
	}
}

// readStore counts the objects that are opened, and their bytes.
type readStore struct {
	storage.Store
	opened, read atomic.Int64
}

func (s *readStore) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Open(ctx, key, offset, length)
	if err == nil {
		s.opened.Add(1)
		s.read.Add(o.Size)
	}
	return o, err
}

// Pages that only list images don't read them again, however large their manifests are.
func TestLists_ReadNoImages(t *testing.T) {
	store := &readStore{}
	s := newSite(t, func(c *setup) { store.Store, c.store = c.store, store })
	var index []map[string]any
	for i := range 32 { // more than the cache of manifests holds
		d := s.image("public/app", oci.Tag(fmt.Sprint("v", i)), func(_, manifest map[string]any) {
			manifest["annotations"] = map[string]string{"filler": strings.Repeat("x", 600<<10), "n": fmt.Sprint(i)}
		}, "layer")
		index = append(index, map[string]any{
			"mediaType": d.MediaType, "digest": d.Digest, "size": d.Size, "platform": map[string]string{"os": "linux", "architecture": fmt.Sprint("a", i)},
		})
	}
	s.put("public/app", oci.Reference{Tag: "all"}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": index})
	b := s.browser()
	b.get("/ui/repository/public/app?sort=size") // remembers what the images are
	for path, images := range map[string]int64{"/ui/repository/public/app?sort=size": 0, "/ui/image/public/app:all": 0, "/ui/compare/public/app?a=all&b=all&platform=linux/a7": 2} {
		store.read.Store(0)
		b.get(path)
		b.want(200, "a7")
		if read := store.read.Load(); read > (images+1)<<20 {
			t.Errorf("%s reads %d bytes", path, read)
		}
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
