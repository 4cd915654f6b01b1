package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/filesystem"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// settle waits until listings may be kept: file systems tell only so finely
// when something changed.
func settle(t *testing.T) {
	t.Helper()
	if !strings.HasSuffix(t.Name(), "memory") {
		time.Sleep(50 * time.Millisecond)
	}
}

func TestTags(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		_, _, err := repo.Tags(ctx, -1, "")
		wantCode(t, err, oci.CodeNameUnknown)
		_, _, err = repo.Tags(ctx, 0, "")
		wantCode(t, err, oci.CodeNameUnknown)

		m := simpleImage(t, repo, "x")
		put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(m.bytes())}, m)
		tags, more, err := repo.Tags(ctx, -1, "")
		check(t, err)
		if tags == nil || len(tags) != 0 || more {
			t.Errorf("a repository without tags lists %v, %v", tags, more)
		}
		for _, tag := range []string{"b", "B", "a-1", "a", "1", "_x"} {
			put(t, repo, tagged(tag), m)
		}
		for _, tt := range []struct {
			n    int
			last string
			want string
			more bool
		}{
			{-1, "", "1 B _x a a-1 b", false},
			{6, "", "1 B _x a a-1 b", false},
			{7, "", "1 B _x a a-1 b", false},
			{2, "", "1 B", true},
			{0, "", "", false},
			{2, "B", "_x a", true},
			{2, "a", "a-1 b", false},
			{-1, "aa", "b", false},
			{-1, "b", "", false},
			{5, "zzz", "", false},
		} {
			tags, more, err := repo.Tags(ctx, tt.n, tt.last)
			check(t, err)
			if got := strings.Join(tags, " "); got != tt.want || more != tt.more {
				t.Errorf("Tags(%d, %q) = %q, %v; want %q, %v", tt.n, tt.last, got, more, tt.want, tt.more)
			}
		}
	})
}

func TestTagListFollowsEveryChange(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx, repo, foreign := context.Background(), r.Repository("a"), New(Options{Driver: r.driver, DeleteEnabled: true}).Repository("a")
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
		// A tag's directory is made before its link.
		check(t, r.driver.Commit(ctx, driver.Stage{{Path: layout.TagIndex("a", "half", d), Content: layout.Link(d)}}))
		want("foreign", "own")
		check(t, r.driver.Commit(ctx, driver.Stage{{Path: layout.TagCurrent("a", "half"), Content: layout.Link(d)}}))
		want("foreign", "half", "own")
		check(t, foreign.DeleteTag(ctx, "half"))
		want("foreign", "own")
		check(t, repo.DeleteTag(ctx, "foreign"))
		check(t, repo.DeleteTag(ctx, "own"))
		got, _, err := repo.Tags(ctx, -1, "")
		check(t, err)
		if len(got) != 0 || got == nil {
			t.Errorf("all deleted, but listed %q", got)
		}
	})
}

func TestCatalog(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx := context.Background()
		names, more, err := r.Catalog(ctx, 10, "")
		check(t, err)
		if names == nil || len(names) != 0 || more {
			t.Errorf("an empty registry lists %v, %v", names, more)
		}
		for _, name := range []oci.Name{"b", "a-b", "a/b/c", "a", "a/b-c", "0", "deep/er/still"} {
			pushImage(t, r.Repository(name), "t", "x")
		}
		pushBlob(t, r.Repository("blobs"), "x")
		start(t, r.Repository("uploads"))
		check(t, r.driver.WriteScratch(ctx, layout.Manifests("FOO/bar")+"/revisions/x", []byte("x")))

		all := []string{"0", "a", "a/b/c", "a/b-c", "a-b", "b", "deep/er/still"}
		for n := 1; n <= len(all)+1; n++ {
			for i := range len(all) + 1 {
				last := ""
				if i > 0 {
					last = all[i-1]
				}
				want := all[i:min(i+n, len(all))]
				got, more, err := r.Catalog(ctx, n, last)
				check(t, err)
				if !slices.Equal(got, want) || more != (i+n < len(all)) {
					t.Errorf("Catalog(%d, %q) = %q, %v; want %q", n, last, got, more, want)
				}
			}
		}
		for last, want := range map[string]string{
			"a/b": "a/b/c", "a/a": "a/b/c", "a/b/c/d": "a/b-c", "a/z": "a-b", "Z": "a", "deep": "deep/er/still", "zz": "", "/": "0", "a//": "a/b/c",
		} {
			got, _, err := r.Catalog(ctx, 1, last)
			check(t, err)
			if strings.Join(got, " ") != want {
				t.Errorf("after %q comes %q, want %q", last, got, want)
			}
		}
		got, more, err := r.Catalog(ctx, 0, "")
		check(t, err)
		if len(got) != 0 || more {
			t.Errorf("a page of nothing holds %q", got)
		}
	})
}

func TestCatalogFollowsEveryChange(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx := context.Background()
		var want []string
		for i := range 4 {
			name := fmt.Sprintf("org/%d", i)
			by := r
			if i%2 == 1 {
				by = New(Options{Driver: r.driver})
			}
			pushBlob(t, by.Repository(oci.Name(name)), "x")
			got, _, err := r.Catalog(ctx, 100, "")
			check(t, err)
			if !slices.Equal(got, want) && len(want) > 0 {
				t.Errorf("with blobs only, %q are listed", got)
			}
			settle(t)
			pushImage(t, by.Repository(oci.Name(name)), "t", "x")
			want = append(want, name)
			for range 2 {
				got, _, err = r.Catalog(ctx, 100, "")
				check(t, err)
				if !slices.Equal(got, want) {
					t.Errorf("%q are listed, want %q", got, want)
				}
				settle(t)
			}
		}
	})
}

// What strangers put into the tree neither shows nor disturbs.
func TestStrayDirectories(t *testing.T) {
	root := t.TempDir()
	d, err := filesystem.Open(root)
	check(t, err)
	defer d.Close()
	ctx, r := context.Background(), New(Options{Driver: d, DeleteEnabled: true})
	repo := r.Repository("a")
	digest := pushImage(t, repo, "t", "x")
	for _, dir := range []string{"lost+found", ".snapshot/x", "UPPER/b", "a/_private/x", "a/_uploads/.nfs+1", "a/_manifests/tags/.x", "a/_manifests/tags/a+b", "a/_manifests/revisions/sha256/+"} {
		check(t, os.MkdirAll(filepath.Join(root, layout.Repositories, dir), 0o755))
	}
	check(t, os.WriteFile(filepath.Join(root, layout.Repositories, "README+"), nil, 0o644))
	names, more, err := r.Catalog(ctx, 10, "")
	check(t, err)
	if !slices.Equal(names, []string{"a"}) || more {
		t.Errorf("the catalog is %q", names)
	}
	tags, _, err := repo.Tags(ctx, -1, "")
	check(t, err)
	if !slices.Equal(tags, []string{"t"}) {
		t.Errorf("the tags are %q", tags)
	}
	if got := listReferrers(t, repo, digest, ""); len(got) != 0 {
		t.Errorf("the referrers are %v", got)
	}
	report, err := r.PurgeUploads(ctx, PurgeOptions{})
	check(t, err)
	if report.Errors != 0 {
		t.Errorf("the purge reports %+v", report)
	}
	_, err = repo.DeleteManifest(ctx, digest)
	check(t, err)
}

// A listing of ten thousand tags is kept, and one new tag does not make all the
// others be looked at again.
func TestTagListIsKept(t *testing.T) {
	counting := &counter{Driver: drivers["filesystem"](t)}
	ctx, repo := context.Background(), New(Options{Driver: counting}).Repository("a")
	d := pushImage(t, repo, "t", "x")
	var stage driver.Stage
	for i := range 200 {
		stage = append(stage, driver.Change{Path: layout.TagCurrent("a", oci.Tag(fmt.Sprint("v", i))), Content: layout.Link(d)})
	}
	check(t, counting.Commit(ctx, stage))
	list := func() (stats int64) {
		time.Sleep(50 * time.Millisecond)
		before := counting.stats.Load()
		_, _, err := repo.Tags(ctx, -1, "")
		check(t, err)
		return counting.stats.Load() - before
	}
	if n := list(); n != 201 {
		t.Errorf("the first listing looks at %d of 201 tags", n)
	}
	if n := list(); n != 0 {
		t.Errorf("the second listing looks at %d tags", n)
	}
	check(t, counting.Commit(ctx, driver.Stage{{Path: layout.TagCurrent("a", "new"), Content: layout.Link(d)}}))
	if n := list(); n != 1 {
		t.Errorf("after one new tag, %d are looked at", n)
	}
}

// counter counts the calls of Stat and Find.
type counter struct {
	driver.Driver
	stats atomic.Int64
}

func (c *counter) Stat(ctx context.Context, path string) (driver.Info, error) {
	c.stats.Add(1)
	return c.Driver.Stat(ctx, path)
}

func (c *counter) Find(ctx context.Context, first, second string) (driver.Info, string, error) {
	c.stats.Add(1)
	return c.Driver.Find(ctx, first, second)
}

// Whoever moves a tag, and however, the next reader sees it.
func TestMovedTagIsSeenAtOnce(t *testing.T) {
	root := t.TempDir()
	d, err := filesystem.Open(root)
	check(t, err)
	defer d.Close()
	ctx, r, foreign := context.Background(), New(Options{Driver: d}), New(Options{Driver: d})
	repo := r.Repository("a")
	images := []image{simpleImage(t, repo, "x"), simpleImage(t, repo, "y")}
	for _, m := range images {
		put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(m.bytes())}, m)
	}
	link := filepath.Join(root, layout.TagCurrent("a", "t"))
	moves := map[string]func(m image){
		"us":               func(m image) { put(t, repo, tagged("t"), m) },
		"another process":  func(m image) { put(t, foreign.Repository("a"), tagged("t"), m) },
		"distribution 2.8": func(m image) { check(t, os.WriteFile(link, layout.Link(oci.SHA256.FromBytes(m.bytes())), 0o644)) },
	}
	put(t, repo, tagged("t"), images[0])
	for i := range 12 {
		if i%3 == 0 {
			time.Sleep(30 * time.Millisecond) // until a tag may be remembered
		}
		for who, move := range moves {
			m := images[i%2]
			move(m)
			for range 3 {
				got, err := repo.Manifest(ctx, tagged("t"))
				check(t, err)
				if want := oci.SHA256.FromBytes(m.bytes()); got.Digest != want {
					t.Fatalf("moved by %s to %s, but it is read as %s", who, want, got.Digest)
				}
			}
		}
	}
}

// The hot path of a pull: a look and a read of the tag for a manifest, two looks
// for a blob.
func TestHotPathsLookOnceOrTwice(t *testing.T) {
	counting := &counter{Driver: drivers["filesystem"](t)}
	ctx, repo := context.Background(), New(Options{Driver: counting}).Repository("a")
	d := pushBlob(t, repo, "x").Digest
	pushImage(t, repo, "t", "x")
	before := counting.stats.Load()
	_, err := repo.Manifest(ctx, tagged("t"))
	check(t, err)
	if n := counting.stats.Load() - before; n != 1 {
		t.Errorf("a manifest costs %d looks", n)
	}
	before = counting.stats.Load()
	_, err = repo.StatBlob(ctx, d)
	check(t, err)
	if n := counting.stats.Load() - before; n != 2 {
		t.Errorf("a blob costs %d looks", n)
	}
}
