package pageindex

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/usage"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

var stores = map[string]func(*testing.T) storage.Store{
	"memory": func(*testing.T) storage.Store { return memory.New() },
	"filesystem": func(t *testing.T) storage.Store {
		s, err := filesystem.Open(t.TempDir())
		check(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	},
	"hostile": func(t *testing.T) storage.Store {
		p := hostiletest.New(hostiletest.Options{}).Process()
		t.Cleanup(func() { p.Close() })
		return p
	},
}

// onStores runs the test on each store there is.
func onStores(t *testing.T, test func(t *testing.T, s storage.Store, remote bool)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t), name == "hostile")
		})
	}
}

func openIndex(t testing.TB, s storage.Store, remote bool, change ...func(*Options)) *Index {
	t.Helper()
	o := Options{Store: s, Remote: remote, Interval: time.Hour, Log: zap.NewNop()}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

// pushImage pushes an image for linux and the architecture.
func pushImage(t *testing.T, repo registry.Repository, tag oci.Tag, arch string, layers ...string) oci.Descriptor {
	t.Helper()
	return registrytest.PushImage(t, repo, tag, fmt.Sprintf(`{"os":"linux","architecture":%q}`, arch), layers...)
}

// pulledAt says of each manifest that it was pulled then.
type pulledAt time.Time

func (p pulledAt) Of(oci.Name, oci.Digest) (time.Time, bool) { return time.Time(p), true }

// A repository has the dates of its latest push and pull.
func TestDates(t *testing.T) {
	onStores(t, func(t *testing.T, s storage.Store, remote bool) {
		repo := registry.New(registry.Options{Store: s, Remote: remote}).Repository("web/app")
		pulled := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var known Pulls = lastpull.Times{} // of no manifest
		x := openIndex(t, s, remote, func(o *Options) {
			o.Pulls = func(context.Context) (Pulls, error) { return known, nil }
		})
		read := func() Repository {
			t.Helper()
			check(t, x.Refresh(t.Context()))
			r, ok := x.Repository("web/app")
			if !ok {
				t.Fatal("it isn't known")
			}
			return r
		}
		pushImage(t, repo, "", "amd64", "layer")
		if r := read(); !r.Pushed.IsZero() || !r.Pulled.IsZero() {
			t.Errorf("without a tag and a pull: %+v", r)
		}
		known = pulledAt(pulled)
		pushImage(t, repo, "v1", "amd64", "layer")
		r := read()
		if age := time.Since(r.Pushed); age > time.Minute || age < -2*time.Second {
			t.Errorf("pushed %s ago", age)
		}
		if !r.Pulled.Equal(pulled) {
			t.Errorf("pulled %v", r.Pulled)
		}
	})
}

// Whatever is pushed and deleted, in any order of readings, the index counts what a count of the
// storage counts.
func TestAgreesWithUsage(t *testing.T) {
	onStores(t, func(t *testing.T, s storage.Store, remote bool) {
		rules := registry.New(registry.Options{Store: s, DeleteEnabled: true, Remote: remote})
		x := openIndex(t, s, remote)
		rnd := rand.New(rand.NewPCG(1, 2))
		names := []oci.Name{"a", "a/b", "c"}
		compare := func(round int) {
			t.Helper()
			report, err := usage.Count(t.Context(), s, rules)
			check(t, err)
			page := x.Repositories(Query{})
			var got, want []string
			for _, r := range page.Repositories {
				got = append(got, fmt.Sprint(r.Name, r.Tags, r.Manifests, r.Blobs, r.Bytes, r.Own))
			}
			for _, r := range report.Repositories {
				want = append(want, fmt.Sprint(r.Name, r.Tags, r.Manifests, r.Blobs, r.Bytes, r.Own))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("round %d:\ngot  %q\nwant %q", round, got, want)
			}
		}
		for round := range 60 {
			repo := rules.Repository(names[rnd.IntN(len(names))])
			tag := oci.Tag(fmt.Sprint("v", rnd.IntN(3)))
			switch rnd.IntN(5) {
			case 0:
				_ = repo.Delete(t.Context())
			case 1:
				if d, ok := repo.TagTarget(t.Context(), tag); ok {
					_, err := repo.DeleteManifest(t.Context(), d)
					check(t, err)
				}
			case 2:
				_ = repo.DeleteBlob(t.Context(), sum(fmt.Sprint("layer ", rnd.IntN(4))))
			default:
				pushImage(t, repo, tag, "amd64", fmt.Sprint("layer ", rnd.IntN(4)), fmt.Sprint("layer ", rnd.IntN(4), " of many"))
			}
			if rnd.IntN(2) == 0 {
				check(t, x.readOne(t.Context(), repo.Name()))
			}
			if round%6 == 5 {
				check(t, x.Refresh(t.Context()))
				compare(round)
			}
		}
		for _, name := range names { // all is gone
			for key := range keys(t, s, layout.Repository(name)) {
				check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Delete: true}}))
			}
		}
		check(t, x.Refresh(t.Context()))
		if c := x.contents; len(c.repositories)+len(c.byID)+len(c.blobs)+c.links != 0 {
			t.Errorf("left is %+v", c)
		}
	})
}

// Bytes that distribution's collection has deleted don't count, though links to them are left.
func TestBytesThatAreGone(t *testing.T) {
	onStores(t, func(t *testing.T, s storage.Store, remote bool) {
		repo := registry.New(registry.Options{Store: s, Remote: remote}).Repository("a")
		pushImage(t, repo, "v1", "amd64", "layer")
		x := openIndex(t, s, remote)
		check(t, x.Refresh(t.Context()))
		check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: layout.BlobData(sum("layer")), Delete: true}}))
		before, _ := x.Repository("a")
		x.checked = time.Time{} // a day later
		check(t, x.Refresh(t.Context()))
		r, _ := x.Repository("a")
		if r.Blobs != before.Blobs-1 || r.Bytes != before.Bytes-int64(len("layer")) || r.Own != r.Bytes {
			t.Errorf("got %+v, before %+v", r, before)
		}
		if _, ok := x.size(x.key(sum("layer"))); ok {
			t.Error("the blob is still known")
		}
	})
}

func keys(t *testing.T, s storage.Store, prefix string) iter.Seq[string] {
	var all []string
	for info, err := range s.List(t.Context(), prefix, storage.ListOptions{Flat: true}) {
		check(t, err)
		all = append(all, info.Key)
	}
	return slices.Values(all)
}

// What hasn't changed is listed and not read again.
func TestWarmRefreshOnlyLists(t *testing.T) {
	onStores(t, func(t *testing.T, s storage.Store, remote bool) {
		rules := registry.New(registry.Options{Store: s, Remote: remote})
		const n = 5
		for i := range n {
			pushImage(t, rules.Repository(oci.Name(fmt.Sprint("r", i))), "v1", "amd64", "layer", fmt.Sprint("layer ", i))
		}
		var lists, others atomic.Int32
		c := &hookedtest.Store{Store: s, OnRead: func(_ context.Context, op hookedtest.Op, _ string) error {
			if op == hookedtest.List {
				lists.Add(1)
			} else {
				others.Add(1)
			}
			return nil
		}}
		x := openIndex(t, c, remote)
		check(t, x.Refresh(t.Context()))
		t.Logf("cold: %d lists, %d others for %d repositories", lists.Load(), others.Load(), n)
		lists.Store(0)
		others.Store(0)
		check(t, x.Refresh(t.Context()))
		if lists, others := lists.Load(), others.Load(); lists != 1+3*n || others != 0 {
			t.Errorf("warm: %d lists and %d other requests, want %d and none", lists, others, 1+3*n)
		}
	})
}

func TestRepositories(t *testing.T) {
	x := openIndex(t, memory.New(), false)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, name := range []oci.Name{"web/app", "web/db", "tools/app", "zebra"} {
		check(t, x.contents.put(&snapshot{Repository{Name: name, Tags: 1, Manifests: 1, Pushed: at, Pulled: at, Read: at}, map[key]int64{key(i + 1): int64(100 - i), 0: 7}}))
	}
	for _, tt := range []struct {
		q     Query
		want  string
		total int
	}{
		{Query{}, "tools/app web/app web/db zebra", 4},
		{Query{Sort: BySize, Limit: 2}, "web/app web/db", 4},
		{Query{Sort: ByOwn, Limit: 3}, "web/app web/db tools/app", 4},
		{Query{Visible: func(n oci.Name) bool { return n == "zebra" }}, "zebra", 1},
	} {
		p := x.Repositories(tt.q)
		var names []string
		for _, r := range p.Repositories {
			names = append(names, string(r.Name))
		}
		if got := strings.Join(names, " "); got != tt.want || p.Total != tt.total {
			t.Errorf("%+v gives %q of %d, want %q of %d", tt.q, got, p.Total, tt.want, tt.total)
		}
	}
	r, ok := x.Repository("web/app")
	want := Repository{Name: "web/app", Tags: 1, Manifests: 1, Blobs: 2, Bytes: 107, Own: 100, Pushed: at, Pulled: at, Read: at}
	if !ok || r != want {
		t.Errorf("got %+v, %v, want %+v", r, ok, want)
	}
	if _, ok := x.Repository("web"); ok {
		t.Error("web is known")
	}
}

// A repository with too many blobs changes nothing of what is known.
func TestBound(t *testing.T) {
	x := openIndex(t, memory.New(), false)
	small := &snapshot{Repository{Name: "small", Tags: 1}, map[key]int64{1: 1}}
	check(t, x.contents.put(small))
	x.contents.links = maxLinks
	if err := x.contents.put(&snapshot{Repository{Name: "large"}, map[key]int64{2: 2}}); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
	check(t, x.contents.put(small))
	if p := x.Repositories(Query{}); p.Total != 1 || p.Bytes != 1 || x.Stored() != 1 {
		t.Errorf("%+v", p)
	}
}

// What is touched while Run runs is read soon.
func TestRun(t *testing.T) {
	s := memory.New()
	rules := registry.New(registry.Options{Store: s})
	pushImage(t, rules.Repository("a"), "v1", "amd64", "x")
	x := openIndex(t, s, false)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { x.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	x.Touch("a")
	if x.Want() {
		t.Error("it was whole before anybody looked")
	}
	eventually("the first pass doesn't end", x.Want)
	for i := range 3 {
		pushImage(t, rules.Repository("a"), oci.Tag(fmt.Sprint("more", i)), "amd64", "x")
		x.Touch("a")
		eventually("a push isn't seen", func() bool {
			r, _ := x.Repository("a")
			return r.Tags == 2+i
		})
	}
}
