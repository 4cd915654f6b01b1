package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"slipway/registry/internal/storage"
)

func testPutReplaces(t *testing.T, p pair) {
	for i, content := range []string{"first", "", "a longer second", "x"} {
		put(t, p.nth(i), "/a/b/f", content)
		p.wantContent(t, "/a/b/f", content)
	}
}

func testPutCopiesContent(t *testing.T, p pair) {
	content := []byte("abc")
	apply(t, p.a, storage.Stage{{Key: "/f", Content: content}})
	content[0] = 'X'
	p.wantContent(t, "/f", "abc")
}

// A deletion removes one object and nothing below it.
func testDelete(t *testing.T, p pair) {
	for _, key := range []string{"/a/f", "/a/t/x", "/a/t/y/z", "/a/tt"} {
		put(t, p.a, key, key)
	}
	apply(t, p.b, storage.Stage{{Key: "/a/t", Delete: true}, {Key: "/a/f", Delete: true}, {Key: "/a/none/f", Delete: true}, {Key: "/a/tt/x", Delete: true}})
	p.wantAbsent(t, "/a/f")
	for _, key := range []string{"/a/t/x", "/a/t/y/z", "/a/tt"} {
		p.wantContent(t, key, key)
	}
	apply(t, p.a, storage.Stage{{Key: "/a/t/x", Delete: true}, {Key: "/a/t/y/z", Delete: true}})
	if got := list(t, p.b, "/a", storage.ListOptions{Flat: true}); len(got) != 1 {
		t.Errorf("left: %q, want tt", got)
	}
	remove(t, p.a, "/a/f")
	put(t, p.a, "/a/t/x", "again")
	p.wantContent(t, "/a/t/x", "again")
	remove(t, p.a, "/a/t/x")
	put(t, p.b, "/a/t", "an object where there was a prefix")
	p.wantContent(t, "/a/t", "an object where there was a prefix")
}

func testRenew(t *testing.T, p pair) {
	put(t, p.a, "/r/link", "content")
	was := stat(t, p.a, "/r/link").Modified
	eventually(t, "a renewed object is newer", func() bool {
		apply(t, p.a, storage.Stage{{Key: "/r/link", Renew: true}})
		a, b := stat(t, p.a, "/r/link").Modified, stat(t, p.b, "/r/link").Modified
		if a.Before(was) || !a.Equal(b) {
			t.Errorf("renewed, its date is %v, or %v in the other process; it was %v", a, b, was)
		}
		return a.After(was)
	})
	p.wantContent(t, "/r/link", "content")
	for _, key := range []string{"/r/none", "/none/at/all", "/r", "/r/link/x"} {
		err := p.a.Apply(t.Context(), nil, storage.Stage{{Key: key, Renew: true}})
		wantError(t, "renewal of "+key, err, storage.ErrNotExist)
		p.wantAbsent(t, key)
	}
}

func testEphemeral(t *testing.T, p pair) {
	for i, content := range []string{"first", "", "a longer second"} {
		apply(t, p.nth(i), storage.Stage{{Key: "/up/1/startedat", Content: []byte(content), Ephemeral: true}})
		p.wantContent(t, "/up/1/startedat", content)
	}
	apply(t, p.a, storage.Stage{{Key: "/up/1/startedat", Delete: true, Ephemeral: true}, {Key: "/none/at/all", Delete: true, Ephemeral: true}})
	p.wantAbsent(t, "/up/1/startedat")
}

func testStages(t *testing.T, p pair) {
	put(t, p.a, "/r/gone", "x")
	u := create(t, p.a, "/up/1/data")
	write(t, u, "blob")
	apply(
		t, p.a,
		storage.Stage{{Key: "/blobs/1/data", Upload: u}, {Key: "/r/rev/link", Content: []byte("rev")}},
		storage.Stage{},
		storage.Stage{{Key: "/r/tag/link", Content: []byte("tag")}, {Key: "/r/gone", Delete: true}},
	)
	p.wantContent(t, "/blobs/1/data", "blob")
	p.wantContent(t, "/r/rev/link", "rev")
	p.wantContent(t, "/r/tag/link", "tag")
	p.wantAbsent(t, "/r/gone")
	apply(t, p.a)
	apply(t, p.a, storage.Stage{})
	apply(t, p.a, storage.Stage{{Key: "/same", Content: []byte("1")}}, storage.Stage{{Key: "/same", Content: []byte("2")}})
	p.wantContent(t, "/same", "2")
}

func testStagesAppearInOrder(t *testing.T, p pair) {
	defer repeat(t, func(i int) error {
		return p.a.Apply(t.Context(), nil,
			storage.Stage{{Key: fmt.Sprintf("/rev/%d", i), Content: []byte("x")}},
			storage.Stage{{Key: "/tag", Content: fmt.Append(nil, i)}})
	})()
	for reads := 0; reads < p.scale.Rounds; reads++ {
		s := p.nth(reads)
		tag, _, err := storage.Read(t.Context(), s, "/tag", 100)
		if errors.Is(err, storage.ErrNotExist) {
			reads = 0
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stat(t.Context(), "/rev/"+string(tag)); err != nil {
			t.Fatalf("the second stage is visible before the first: %v", err)
		}
	}
}

// What a stage puts first is there before the rest of the stage.
func testFirstOfStageAppearsFirst(t *testing.T, p pair) {
	defer repeat(t, func(i int) error {
		return p.a.Apply(t.Context(), nil, storage.Stage{
			{Key: fmt.Sprintf("/blobs/%d/data", i), Content: []byte("x")},
			{Key: "/link", Content: fmt.Append(nil, i)},
		})
	})()
	for reads := 0; reads < p.scale.Rounds; reads++ {
		s := p.nth(reads)
		link, _, err := storage.Read(t.Context(), s, "/link", 100)
		if errors.Is(err, storage.ErrNotExist) {
			reads = 0
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stat(t.Context(), "/blobs/"+string(link)+"/data"); err != nil {
			t.Fatalf("the second change of a stage is visible before the first: %v", err)
		}
	}
}

func testChangesAreWhole(t *testing.T, p pair) {
	contents := []string{strings.Repeat("a", 10_000), strings.Repeat("b", 5_000)}
	put(t, p.a, "/f", contents[0])
	defer repeat(t, func(i int) error {
		return p.nth(i/2).Apply(t.Context(), nil, storage.Stage{{Key: "/f", Content: []byte(contents[i%2])}})
	})()
	for i := range p.scale.Rounds {
		got, _, err := storage.Read(t.Context(), p.nth(i), "/f", 20_000)
		if err != nil || string(got) != contents[0] && string(got) != contents[1] {
			t.Fatalf("read %.10q… (%d bytes), %v; want one whole content", got, len(got), err)
		}
	}
}

func testApplyAtOnce(t *testing.T, p pair) {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			s := p.nth(i)
			for j := range 4 {
				key := fmt.Sprintf("/r%d/x/%d/link", i, j)
				if err := s.Apply(t.Context(), nil,
					storage.Stage{{Key: key, Content: []byte(key)}},
					storage.Stage{{Key: "/same/link", Content: []byte(key)}}); err != nil {
					t.Errorf("Apply: %v", err)
				}
				p.wantContent(t, key, key)
			}
		})
	}
	all.Wait()
	for i := range 16 {
		if got := list(t, p.nth(i), fmt.Sprintf("/r%d/x", i), storage.ListOptions{}); len(got) != 4 {
			t.Errorf("/r%d/x has %q", i, got)
		}
	}
}

// Deletions beside an object don't disturb its writer: a store with directories may remove
// them under a writer.
func testApplyWhileDeleting(t *testing.T, p pair) {
	stop := repeat(t, func(i int) error {
		s := p.nth(i)
		return errors.Join(
			s.Apply(t.Context(), nil, storage.Stage{{Key: "/r/tags/v1/current/link", Delete: true}, {Key: "/r/tags/v1/note", Delete: true, Ephemeral: true}}),
			s.Apply(t.Context(), nil, storage.Stage{{Key: fmt.Sprintf("/r/tags/v1/%d/data", i%100), Delete: true}}),
		)
	})
	defer stop()
	for i := range p.scale.Rounds / 2 {
		s := p.nth(i)
		put(t, s, "/r/tags/v1/current/link", "x")
		apply(t, s, storage.Stage{{Key: "/r/tags/v1/note", Content: []byte("x"), Ephemeral: true}})
		if u, err := s.OpenUpload(t.Context(), fmt.Sprintf("/r/tags/v1/%d/data", i), storage.UploadOptions{Create: true}); err != nil {
			t.Errorf("OpenUpload: %v", err)
		} else if err := u.Suspend(t.Context(), 0, nil); err != nil && !lost(err) {
			t.Errorf("Suspend: %v", err)
		}
	}
	stop()
	put(t, p.a, "/r/tags/v1/current/link", "last")
	p.wantContent(t, "/r/tags/v1/current/link", "last")
}

// lost reports whether an upload failed because another holder removed or took it.
func lost(err error) bool {
	return errors.Is(err, storage.ErrNotExist) || errors.Is(err, storage.ErrUploadTaken)
}
