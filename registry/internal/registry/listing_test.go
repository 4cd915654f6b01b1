package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

// settle waits until listings may be kept: file systems tell only so finely
// when something changed.
func settle(t *testing.T) {
	t.Helper()
	if !strings.HasSuffix(t.Name(), "memory") {
		time.Sleep(50 * time.Millisecond)
	}
}

func TestTagListFollowsEveryChange(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo, foreign := context.Background(), r.Repository("a"), again(r, Options{DeleteEnabled: true}).Repository("a")
		want := func(want ...string) {
			t.Helper()
			for range 2 {
				got, _, err := repo.Tags(ctx, -1, "")
				check(t, err)
				if !slices.Equal(got, want) {
					t.Fatalf("listed %q, want %q", got, want)
				}
				settle(t)
			}
		}
		m := simpleImage(t, repo, "x")
		d := oci.SHA256.FromBytes(m.bytes())
		put(t, repo, tagged("own"), m)
		want("own")
		put(t, foreign, tagged("foreign"), m)
		want("foreign", "own")
		// A tag's history is written before its link.
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.TagIndex("a", "half", d), Content: layout.Link(d)}}))
		if r.store.Remote {
			want("foreign", "half", "own")
		} else {
			want("foreign", "own")
		}
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.TagCurrent("a", "half"), Content: layout.Link(d)}}))
		want("foreign", "half", "own")
		check(t, deleteTag(ctx, foreign, "half"))
		want("foreign", "own")
		check(t, deleteTag(ctx, repo, "foreign"))
		check(t, deleteTag(ctx, repo, "own"))
		got, _, err := repo.Tags(ctx, -1, "")
		check(t, err)
		if len(got) != 0 || got == nil {
			t.Errorf("all deleted, but listed %q", got)
		}
	})
}

func TestCatalog(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx := context.Background()
		names, more, err := r.Catalog(ctx, 10, "", nil)
		check(t, err)
		if names == nil || len(names) != 0 || more {
			t.Errorf("an empty registry lists %v, %v", names, more)
		}
		for _, name := range []oci.Name{"b", "a-b", "a/b/c", "a", "a/b-c", "0", "deep/er/still"} {
			pushImage(t, r.Repository(name), "t", "x")
		}
		pushBlob(t, r.Repository("blobs"), "x")
		start(t, r.Repository("uploads"))
		putObject(t, r.store, layout.Manifests("FOO/bar")+"/revisions/x", "x")

		all := []string{"0", "a", "a/b/c", "a/b-c", "a-b", "b", "deep/er/still"}
		for n := 1; n <= len(all)+1; n++ {
			for i := range len(all) + 1 {
				last := ""
				if i > 0 {
					last = all[i-1]
				}
				want := all[i:min(i+n, len(all))]
				got, more, err := r.Catalog(ctx, n, last, nil)
				check(t, err)
				if !slices.Equal(got, want) || more != (i+n < len(all)) {
					t.Errorf("Catalog(%d, %q) = %q, %v; want %q", n, last, got, more, want)
				}
			}
		}
		for last, want := range map[string]string{
			"a/b": "a/b/c", "a/a": "a/b/c", "a/b/c/d": "a/b-c", "a/z": "a-b", "Z": "a", "deep": "deep/er/still", "zz": "", "/": "0", "a//": "a/b/c",
		} {
			got, _, err := r.Catalog(ctx, 1, last, nil)
			check(t, err)
			if strings.Join(got, " ") != want {
				t.Errorf("after %q comes %q, want %q", last, got, want)
			}
		}
		got, more, err := r.Catalog(ctx, 0, "", nil)
		check(t, err)
		if len(got) != 0 || more {
			t.Errorf("a page of nothing holds %q", got)
		}
	})
}

// Page by page, each directory is read once, and a page looks at none but those of its own repositories,
// those above them, and the next.
func TestCatalog_ReadsEachDirectoryOnce(t *testing.T) {
	lists, looks := 0, 0
	store := &hookedtest.Store{Store: stores["memory"](t), OnRead: func(_ context.Context, op hookedtest.Op, _ string) error {
		switch op {
		case hookedtest.List:
			lists++
		case hookedtest.Stat: // of prefixes, which avoids a listing
			looks++
		}
		return nil
	}}
	for i := range 40 {
		pushImage(t, newRegistry(store.Store, Options{}).Repository(oci.Name(fmt.Sprintf("team-%d/app-%d", i/10, i%10))), "t", "x")
	}
	r := newRegistry(store, Options{})
	pass := func(wantLists, maxLooks int) {
		t.Helper()
		lists = 0
		last, n := "", 0
		for more := true; more; {
			looks = 0
			var names []string
			var err error
			names, more, err = r.Catalog(t.Context(), 5, last, nil)
			check(t, err)
			n, last = n+len(names), names[len(names)-1]
			if looks > maxLooks {
				t.Errorf("the page that ends with %s looks at %d directories, want at most %d", last, looks, maxLooks)
			}
		}
		if n != 40 || lists != wantLists {
			t.Errorf("%d repositories by reading %d directories, want 40 and %d", n, lists, wantLists)
		}
	}
	pass(1+4+40, 5) // known already: the root, two teams, the last repository of the page before, the first of this one
	pass(0, 5+5)
}

func TestCatalogFollowsEveryChange(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx := context.Background()
		var want []string
		for i := range 4 {
			name := fmt.Sprintf("org/%d", i)
			by := r
			if i%2 == 1 {
				by = again(r, Options{})
			}
			pushBlob(t, by.Repository(oci.Name(name)), "x")
			got, _, err := r.Catalog(ctx, 100, "", nil)
			check(t, err)
			if !slices.Equal(got, want) && len(want) > 0 {
				t.Errorf("with blobs only, %q are listed", got)
			}
			settle(t)
			pushImage(t, by.Repository(oci.Name(name)), "t", "x")
			want = append(want, name)
			for range 2 {
				got, _, err = r.Catalog(ctx, 100, "", nil)
				check(t, err)
				if !slices.Equal(got, want) {
					t.Errorf("%q are listed, want %q", got, want)
				}
				settle(t)
			}
		}
	})
}

// The hot path of a pull: a look at the tag and one at the manifest's link, two looks
// for a blob.
func TestHotPathsLookOnceOrTwice(t *testing.T) {
	var stats atomic.Int64
	counting := &hookedtest.Store{Store: stores["memory"](t), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Stat && !strings.HasSuffix(key, "/") { // a prefix is looked at to save a listing
			stats.Add(1)
		}
		return nil
	}}
	ctx, repo := context.Background(), newRegistry(counting, Options{}).Repository("a")
	d := pushBlob(t, repo, "x").Digest
	pushImage(t, repo, "t", "x")
	for pull, want := range []int64{1, 2} { // the first one reads the tag's link without a look
		before := stats.Load()
		_, err := repo.Manifest(ctx, tagged("t"))
		check(t, err)
		if n := stats.Load() - before; n != want {
			t.Errorf("pull %d of a manifest costs %d looks, want %d", pull, n, want)
		}
	}
	before := stats.Load()
	_, err := repo.StatBlob(ctx, d)
	check(t, err)
	if n := stats.Load() - before; n != 2 {
		t.Errorf("a blob costs %d looks", n)
	}
}
