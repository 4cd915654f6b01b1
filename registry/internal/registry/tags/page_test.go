package tags

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// Pages of tags of a remote store hold what a listing of all tags has, in its order, also
// where some names begin with others and histories are long.
func TestRemoteTags_PagesAreThoseOfTheSortedNames(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for round := range 20 {
		p := hostile.New(hostile.Options{}).Process()
		x := New(view.New(p, true))
		var names []string
		var stage storage.Stage
		for range 1 + random.IntN(60) {
			name := []string{"1", "latest", "v2"}[random.IntN(3)]
			for range random.IntN(4) {
				name += []string{".1", "-a", "0", "_b", ".12", "-"}[random.IntN(6)]
			}
			if tag, err := oci.ParseTag(name); err != nil || slices.Contains(names, name) {
				continue
			} else if d := sum(name); random.IntN(5) == 0 { // not a tag yet
				stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag, d), Content: layout.Link(d)})
			} else {
				names = append(names, name)
				stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(d)})
			}
		}
		if round == 0 {
			for i := range longHistory + 10 {
				stage = append(stage, storage.Change{Key: layout.TagIndex("a", "latest", sum(fmt.Sprint(i))), Content: layout.Link(sum(fmt.Sprint(i)))})
			}
		}
		stage = append(stage, storage.Change{Key: layout.RevisionLink("a", sum("x")), Content: layout.Link(sum("x"))})
		check(t, p.Apply(context.Background(), nil, stage))
		slices.Sort(names)
		for _, size := range []int{-1, 1, 2, 7} {
			got := pagesOf(t, x, size)
			if !slices.Equal(got, names) {
				t.Errorf("round %d, pages of %d: %q, want %q", round, size, got, names)
			}
		}
		check(t, p.Close())
	}
}

// A large repository of a remote store lists exactly the tags that have a link, in each size of
// page, at the first time and again, whatever other processes have changed in between.
func TestRemoteTags_LargeRepository_FollowsEveryChange(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	bucket := hostile.New(hostile.Options{})
	p, other := bucket.Process(), bucket.Process()
	defer p.Close()
	defer other.Close()
	x := New(view.New(p, true))
	tags := map[string]bool{} // has a link
	change := func(n int) {
		var stage storage.Stage
		for range n {
			name := fmt.Sprintf("v%d%s", random.IntN(1500), []string{"", "", "-a", ".1", "-a.1", "0"}[random.IntN(6)])
			if _, has := tags[name]; has {
				continue
			}
			tag, err := oci.ParseTag(name)
			check(t, err)
			stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag, sum("x")), Content: layout.Link(sum("x"))})
			if tags[name] = random.IntN(5) > 0; tags[name] { // else it is being pushed
				stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(sum("x"))})
			}
		}
		check(t, other.Apply(context.Background(), nil, stage))
	}
	change(3000)
	want := func() (names []string) {
		for name, linked := range tags {
			if linked {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	for round := range 4 {
		all := want()
		if round == 0 && len(all) < 1000 {
			t.Fatalf("%d tags are no large repository", len(all))
		}
		for _, size := range []int{700, 1000, 50, -1} {
			got := pagesOf(t, x, size)
			if !slices.Equal(got, all) {
				t.Fatalf("round %d, pages of %d: %d tags, want %d", round, size, len(got), len(all))
			}
		}
		if _, kept := x.names.Get("a"); !kept {
			t.Fatal("nothing is remembered of a large repository")
		}
		change([]int{5, 600, 5}[round%3])
		var gone storage.Stage
		for i, name := range want() {
			if i%(100+random.IntN(50)) == 0 || round == 2 && i%2 == 0 {
				gone = append(gone, storage.Change{Key: layout.TagCurrent("a", oci.Tag(name)), Delete: true},
					storage.Change{Key: layout.TagIndex("a", oci.Tag(name), sum("x")), Delete: true})
				delete(tags, name)
			}
		}
		check(t, other.Apply(context.Background(), nil, gone))
	}
}

// No tag is looked at by itself, and what was listed once is listed by its names alone.
func TestRemoteTags_Requests(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	x := New(view.New(p, true))
	const tags, size = 3000, 700
	manyRemoteTags(t, p, tags)
	var lists, looks atomic.Int64
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		switch r.Op {
		case "LIST":
			lists.Add(1)
		case "HEAD", "GET":
			looks.Add(1)
		}
		return hostile.None
	})
	walk := func() (int64, int64) {
		lists.Store(0)
		looks.Store(0)
		for last, more := "", true; more; {
			_, next, err := x.List(t.Context(), "a", size, last)
			check(t, err)
			last, more = next, next != ""
		}
		return lists.Load(), looks.Load()
	}
	n, looked := walk()
	t.Logf("first: %d listings, %d looks", n, looked)
	if looked > 0 {
		t.Errorf("%d tags are looked at", looked)
	}
	again, looked := walk()
	t.Logf("again: %d listings, %d looks", again, looked)
	if again >= n || looked > 0 {
		t.Errorf("%d listings and %d looks for what was listed before by %d", again, looked, n)
	}
}

// Names that another process has added between those that were listed before come in whole pages.
func TestRemoteTags_ManyNewNames_FewRequests(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p, other := bucket.Process(), bucket.Process()
	defer p.Close()
	defer other.Close()
	x := New(view.New(p, true))
	manyRemoteTags(t, p, 1500)
	tags, _, err := x.List(t.Context(), "a", -1, "")
	check(t, err)
	var stage storage.Stage
	for i := range 1000 {
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", oci.Tag(fmt.Sprintf("tag0000-%04d", i))), Content: layout.Link(sum("x"))})
	}
	check(t, other.Apply(t.Context(), nil, stage))
	var lists atomic.Int64
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" {
			lists.Add(1)
		}
		return hostile.None
	})
	now, _, err := x.List(t.Context(), "a", -1, "")
	check(t, err)
	if len(now) != len(tags)+1000 || lists.Load() > 200 {
		t.Errorf("%d tags by %d listings, want %d by no more than 200", len(now), lists.Load(), len(tags)+1000)
	}
}

func manyRemoteTags(t *testing.T, s storage.Store, n int) {
	t.Helper()
	stage := storage.Stage{{Key: layout.RevisionLink("a", sum("x")), Content: layout.Link(sum("x"))}}
	for i := range n {
		tag := oci.Tag(fmt.Sprintf("tag%04d", i))
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(sum("x"))},
			storage.Change{Key: layout.TagIndex("a", tag, sum("x")), Content: layout.Link(sum("x"))})
	}
	check(t, s.Apply(context.Background(), nil, stage))
}

// pagesOf reads all pages of that size.
func pagesOf(t *testing.T, x *Index, size int) (names []string) {
	t.Helper()
	for last, more := "", true; more; {
		page, next, err := x.List(t.Context(), "a", size, last)
		check(t, err)
		names, more, last = append(names, page...), next != "", next
	}
	return names
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(b string) oci.Digest { return oci.SHA256.FromBytes([]byte(b)) }
