package web

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// Once the storage was read, which the first view of the list begins, lists show sizes and dates.
func TestSizesInLists(t *testing.T) {
	s := newSite(t, open, indexed)
	s.image("web/app", "v1", nil, strings.Repeat("x", 3000), "shared")
	s.image("web/db", "v1", nil, strings.Repeat("y", 70_000), "shared")
	b := s.browser()
	b.get("/ui/?in=web/")
	b.want(200, "web/app", "-Only here", "Sizes and dates are being read")
	for end := time.Now().Add(30 * time.Second); !strings.Contains(b.page, "Only here"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no sizes appear")
		}
		b.get("/ui/?in=web/")
	}
	b.want(200, "Last push", "69.2 KiB", "-being read")
	b.get("/ui/repository/web/db")
	b.want(200, "69.2 KiB in 4 blobs and manifests")
	b.get("/ui/usage")
	b.want(200, "2 repositories with", "if it counts once", "web/app", "web/db", `max="70`)
}

// TestUsage_Hidden: the sizes of what a visitor may not pull are none of theirs, neither one by one nor in sum.
func TestUsage_Hidden(t *testing.T) {
	s := newSite(t, indexed)
	s.image("web/app", "v1", nil, strings.Repeat("x", 3000))
	s.image("secret/plans", "v1", nil, strings.Repeat("y", 70_000))
	b := s.as("bob")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b.get("/ui/usage"); strings.Contains(b.page, "web/app") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no sizes appear")
		}
	}
	b.want(200, "1 repository with 3.", "-secret/plans", "-counts once")
	b = s.browser()
	b.get("/ui/usage")
	b.want(200, "-web/app", "There is no repository that you may see.")
}

// slowNames is a storage in which the catalog waits while it is held.
type slowNames struct {
	storage.Store
	held atomic.Pointer[chan struct{}]
}

func (s *slowNames) wait(prefix string) {
	if held := s.held.Load(); held != nil && prefix == layout.Repositories {
		<-*held
	}
}

func (s *slowNames) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.wait(strings.TrimSuffix(key, "/"))
	return s.Store.Stat(ctx, key)
}

func (s *slowNames) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if o.Version != nil { // not the index, which remembers no listings
		s.wait(prefix)
	}
	return s.Store.List(ctx, prefix, o)
}

// hold holds the catalog until the function is called.
func (s *slowNames) hold() (release func()) {
	held := make(chan struct{})
	s.held.Store(&held)
	return func() { s.held.Store(nil); close(held) }
}

// A list waits for no catalog while names are known from before or from the index.
func TestNames_ReadInTheBackground(t *testing.T) {
	store := &slowNames{Store: memory.New()}
	rules := registry.New(registry.Options{Store: store, DeleteEnabled: true})
	s := &site{T: t, rules: rules}
	x := pageindex.New(pageindex.Options{Store: store, Interval: time.Hour, Log: zap.NewNop()})
	n := newNames(rules, x, zap.NewNop())
	defer n.close()
	want := func(when string, want ...oci.Name) {
		t.Helper()
		if got, _, err := n.list(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
	}
	wantSoon := func(when string, want ...oci.Name) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			got, _, err := n.list(t.Context())
			if err == nil && slices.Equal(got, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v, %v; want %v", when, got, err, want)
			}
		}
	}
	s.image("web-a/x", "v1", nil, "x")
	s.image("web/app", "v1", nil, "y")
	if err := x.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.image("web/new", "v1", nil, "z")
	release := store.hold()
	want("after a start, from the index", "web/app", "web-a/x")
	release()
	wantSoon("from the catalog", "web/app", "web/new", "web-a/x")

	s.image("web/newer", "v1", nil, "z")
	release = store.hold()
	n.fresh = 0
	want("from before", "web/app", "web/new", "web-a/x")
	if err := x.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("from before and the index", "web/app", "web/new", "web/newer", "web-a/x")

	if err := rules.Repository("web/app").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.changed(t.Context(), "web/app")
	time.AfterFunc(2*namesWait, release)
	want("after a change by a page", "web/new", "web/newer", "web-a/x")
}

// TestOnlyHere_Hidden: visitors who may not see all repositories don't learn which blobs a hidden one
// has: neither what only one has, nor an order by it.
func TestOnlyHere_Hidden(t *testing.T) {
	s := newSite(t, indexed)
	s.image("web/probe", "v1", nil, "small", "same layer")
	s.image("web/app", "v1", nil, strings.Repeat("x", 3000))
	s.image("secret/plans", "v1", nil, strings.Repeat("y", 70_000), "same layer")
	owner, bob := s.as("owner"), s.as("bob")
	for end := time.Now().Add(30 * time.Second); !strings.Contains(owner.page, "Only in secret/plans"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no sizes appear")
		}
		owner.get("/ui/usage?sort=own")
	}
	owner.want(200, "Only here", "Only in web/probe", `sort=own" aria-current="true"`)
	for _, path := range []string{"/ui/?in=web/", "/ui/repository/web/probe"} {
		owner.get(path)
		owner.want(200, "nly here")
		bob.get(path)
		bob.want(200, "-nly here")
	}
	bob.get("/ui/usage?sort=own")
	bob.want(200, "web/probe", "-nly here", "-Only in", "-sort=own")
	if strings.Index(bob.page, "web/app") > strings.Index(bob.page, "web/probe") {
		t.Error("the list is ordered by what is in one repository only")
	}
}
