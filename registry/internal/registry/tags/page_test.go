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
// where some names begin with others.
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
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	x := New(view.New(p, true))
	var stage storage.Stage
	for i := range 1000 {
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", oci.Tag(fmt.Sprintf("v%03d.1-x", i))), Content: layout.Link(sum("x"))})
	}
	check(t, p.Apply(t.Context(), nil, stage))
	var requests atomic.Int64
	bucket.SetFault(func(hostile.Request) hostile.Fault {
		requests.Add(1)
		return hostile.None
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
