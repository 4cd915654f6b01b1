package tags

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

// Pages of tags of a remote store hold what a listing of all tags has, in its order, also
// where some names begin with others.
func TestRemoteTags_PagesAreThoseOfTheSortedNames(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for round := range 20 {
		p := hostiletest.New(hostiletest.Options{}).Process()
		x := New(tree.NewStore(p, true))
		var names []string
		var stage storage.Stage
		for range 1 + random.IntN(60) {
			name := []string{"1", "latest", "v2"}[random.IntN(3)]
			for range random.IntN(4) {
				name += []string{".1", "-a", "0", "_b", ".12", "-"}[random.IntN(6)]
			}
			if _, err := oci.ParseTag(name); err != nil || slices.Contains(names, name) {
				continue
			}
			d := sum(name)
			names = append(names, name)
			stage = append(stage, storage.Change{Key: layout.TagIndex("a", oci.Tag(name), d), Content: layout.Link(d)},
				storage.Change{Key: layout.TagCurrent("a", oci.Tag(name)), Content: layout.Link(d)})
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

// A page costs a listing of its names, and a look at each name that its last one begins with.
func TestRemoteTags_Requests(t *testing.T) {
	bucket := hostiletest.New(hostiletest.Options{})
	p := bucket.Process()
	defer p.Close()
	x := New(tree.NewStore(p, true))
	var stage storage.Stage
	for i := range 1000 {
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", oci.Tag(fmt.Sprintf("v%03d.1-x", i))), Content: layout.Link(sum("x"))})
	}
	check(t, p.Apply(t.Context(), nil, stage))
	var requests atomic.Int64
	bucket.SetFault(func(hostiletest.Request) hostiletest.Fault {
		requests.Add(1)
		return hostiletest.None
	})
	if got := pagesOf(t, x, 100); len(got) != 1000 {
		t.Errorf("%d tags are listed", len(got))
	}
	// A page of 100 is more than this store lists by one request.
	if n := requests.Load(); n > 10*(2+2) {
		t.Errorf("10 pages cost %d requests", n)
	}
}

// pagesOf reads all pages of that size.
// On files a name without a link isn't a tag, and a link that was found isn't looked for again.
func TestLocalTags_EachLinkIsFoundOnce(t *testing.T) {
	var lookups atomic.Int64
	s := &hookedtest.Store{Store: memory.New(), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Stat && strings.HasSuffix(key, "/current/link") {
			lookups.Add(1)
		}
		return nil
	}}
	x := New(tree.NewStore(s, false))
	set := func(key string) {
		t.Helper()
		check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: layout.Link(sum("x"))}}))
	}
	for _, tag := range []oci.Tag{"a", "a-b", "v1"} {
		set(layout.TagCurrent("a", tag))
	}
	for _, tt := range []struct {
		want    []string
		lookups int64
	}{{[]string{"a", "a-b", "v1"}, 3}, {[]string{"a", "a-b", "v1"}, 0}} {
		if got := pagesOf(t, x, 2); !slices.Equal(got, tt.want) || lookups.Swap(0) != tt.lookups {
			t.Errorf("listed %q, want %q by %d lookups", got, tt.want, tt.lookups)
		}
	}
	set(layout.TagIndex("a", "begun", sum("x"))) // as a push that ended before its link
	set(layout.TagCurrent("a", "v2"))
	if got, want := pagesOf(t, x, -1), []string{"a", "a-b", "v1", "v2"}; !slices.Equal(got, want) || lookups.Swap(0) != 2 {
		t.Errorf("listed %q, want %q by 2 lookups", got, want)
	}
	set(layout.TagCurrent("a", "begun"))
	if got, want := pagesOf(t, x, -1), []string{"a", "a-b", "begun", "v1", "v2"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

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
