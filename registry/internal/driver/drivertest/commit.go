package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"slipway/registry/internal/driver"
)

func testCommitReplaces(t *testing.T, d driver.Driver) {
	for _, content := range []string{"first", "", "a longer second", "x"} {
		put(t, d, "/a/b/f", content)
		wantContent(t, d, "/a/b/f", content)
	}
}

func testCommitStages(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "blob")
	commit(
		t, d,
		driver.Stage{{Path: "/blobs/1/data", Upload: u}, {Path: "/r/rev/link", Content: []byte("rev")}},
		driver.Stage{},
		driver.Stage{{Path: "/r/tag/link", Content: []byte("tag")}, {Path: "/r/gone", Remove: true}},
	)
	wantContent(t, d, "/blobs/1/data", "blob")
	wantContent(t, d, "/r/rev/link", "rev")
	wantContent(t, d, "/r/tag/link", "tag")
	commit(t, d)
}

func testCommitRemoves(t *testing.T, d driver.Driver) {
	for _, path := range []string{"/a/f", "/a/t/x", "/a/t/y/z", "/a/tt"} {
		put(t, d, path, path)
	}
	commit(t, d, driver.Stage{{Path: "/a/t", Remove: true}, {Path: "/a/f", Remove: true}, {Path: "/a/none/f", Remove: true}})
	for _, path := range []string{"/a/f", "/a/t/x", "/a/t/y/z", "/a/t"} {
		if _, err := d.Stat(t.Context(), path); !errors.Is(err, driver.ErrNotExist) {
			t.Errorf("Stat(%s) after removal: %v", path, err)
		}
	}
	wantContent(t, d, "/a/tt", "/a/tt")
	put(t, d, "/a/t/x", "again")
	wantContent(t, d, "/a/t/x", "again")
	wantAbsent(t, d, "/a/t/y/z")
}

func testCommitCopiesContent(t *testing.T, d driver.Driver) {
	content := []byte("abc")
	commit(t, d, driver.Stage{{Path: "/f", Content: content}})
	content[0] = 'X'
	wantContent(t, d, "/f", "abc")
}

func testStagesAppearInOrder(t *testing.T, d driver.Driver) {
	defer repeat(t, func(i int) error {
		return d.Commit(t.Context(),
			driver.Stage{{Path: fmt.Sprintf("/rev/%d", i), Content: []byte("x")}},
			driver.Stage{{Path: "/tag", Content: fmt.Append(nil, i)}})
	})()
	for reads := 0; reads < 200; reads++ {
		tag, err := d.ReadFile(t.Context(), "/tag", 100)
		if errors.Is(err, driver.ErrNotExist) {
			reads = 0
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Stat(t.Context(), "/rev/"+string(tag)); err != nil {
			t.Fatalf("the second stage is visible before the first: %v", err)
		}
	}
}

func testChangesAreWhole(t *testing.T, d driver.Driver) {
	contents := []string{strings.Repeat("a", 10_000), strings.Repeat("b", 5_000)}
	put(t, d, "/f", contents[0])
	defer repeat(t, func(i int) error {
		return d.Commit(t.Context(), driver.Stage{{Path: "/f", Content: []byte(contents[i%2])}})
	})()
	for range 200 {
		got, err := d.ReadFile(t.Context(), "/f", 20_000)
		if err != nil || string(got) != contents[0] && string(got) != contents[1] {
			t.Fatalf("read %.10q… (%d bytes), %v; want one whole content", got, len(got), err)
		}
	}
}

func testCommitsAtOnce(t *testing.T, d driver.Driver) {
	var commits sync.WaitGroup
	for i := range 16 {
		commits.Go(func() {
			for j := range 4 {
				path := fmt.Sprintf("/r%d/x/%d/link", i, j)
				if err := d.Commit(t.Context(),
					driver.Stage{{Path: path, Content: []byte(path)}},
					driver.Stage{{Path: "/same/link", Content: []byte(path)}}); err != nil {
					t.Errorf("Commit: %v", err)
				}
				wantContent(t, d, path, path)
			}
		})
	}
	commits.Wait()
	for i := range 16 {
		if got := names(t, d, fmt.Sprintf("/r%d/x", i), ""); len(got) != 4 {
			t.Errorf("/r%d/x has %q", i, got)
		}
	}
}

// testCommitWhileRemoving has a directory torn down under commits into it.
func testCommitWhileRemoving(t *testing.T, d driver.Driver) {
	stop := repeat(t, func(int) error {
		return errors.Join(
			d.Commit(t.Context(), driver.Stage{{Path: "/r/tags", Remove: true}}),
			d.Discard(t.Context(), "/r/tags/v1"),
		)
	})
	defer stop()
	for i := range 100 {
		put(t, d, "/r/tags/v1/current/link", "x")
		if err := d.WriteScratch(t.Context(), "/r/tags/v1/note", []byte("x")); err != nil {
			t.Fatalf("WriteScratch: %v", err)
		}
		closeUpload(t, create(t, d, fmt.Sprintf("/r/tags/v1/%d/data", i)))
	}
	stop()
	put(t, d, "/r/tags/v1/current/link", "last")
	wantContent(t, d, "/r/tags/v1/current/link", "last")
}

func testRemove(t *testing.T, d driver.Driver) {
	put(t, d, "/a/b/f", "x")
	put(t, d, "/a/b/g", "y")
	for _, path := range []string{"/a/b", "/a/b/h", "/a/b/f/h", "/x/y"} {
		wantError(t, "Remove("+path+")", d.Remove(t.Context(), path), driver.ErrNotExist)
	}
	if err := d.Remove(t.Context(), "/a/b/f"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	wantAbsent(t, d, "/a/b/f")
	wantContent(t, d, "/a/b/g", "y")
	wantError(t, "Remove again", d.Remove(t.Context(), "/a/b/f"), driver.ErrNotExist)
}

func testScratch(t *testing.T, d driver.Driver) {
	for _, content := range []string{"first", "", "a longer second"} {
		if err := d.WriteScratch(t.Context(), "/up/1/startedat", []byte(content)); err != nil {
			t.Fatalf("WriteScratch: %v", err)
		}
		wantContent(t, d, "/up/1/startedat", content)
	}
	if got := names(t, d, "/up", ""); len(got) != 1 || got[0] != "1" {
		t.Errorf("List = %q, want the directory of what was written", got)
	}
}

func testDiscard(t *testing.T, d driver.Driver) {
	for _, path := range []string{"/up/1/startedat", "/up/1/hashstates/sha256/0", "/up/1/hashstates/sha256/10", "/up/10/startedat", "/up/2/startedat"} {
		if err := d.WriteScratch(t.Context(), path, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/up/1", "/up/1", "/up/2/startedat", "/none/at/all"} {
		if err := d.Discard(t.Context(), path); err != nil {
			t.Errorf("Discard(%s): %v", path, err)
		}
	}
	for _, path := range []string{"/up/1/startedat", "/up/1/hashstates/sha256/0", "/up/2/startedat"} {
		wantAbsent(t, d, path)
	}
	if _, err := d.Stat(t.Context(), "/up/1"); !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat of a discarded tree: %v", err)
	}
	wantContent(t, d, "/up/10/startedat", "x")
}
