package storagetest

import (
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/storage"
)

// list returns the keys of a listing below prefix without the prefix and its
// slash, and checks their order on the way.
func list(t *testing.T, s storage.Store, prefix string, o storage.ListOptions) (names []string) {
	t.Helper()
	last := ""
	for info, err := range s.List(t.Context(), prefix, o) {
		if err != nil {
			t.Fatalf("List(%s, %+v): %v", prefix, o, err)
		}
		name, ok := strings.CutPrefix(info.Key, prefix+"/")
		if !ok || info.Key <= last || info.Prefix != strings.HasSuffix(name, "/") {
			t.Errorf("List(%s, %+v) has %+v after %q", prefix, o, info, last)
		}
		names, last = append(names, name), info.Key
	}
	return names
}

var tree = []string{"0", "B", "a", "a-b/x", "a.b/x", "a/x/y", "a/z", "a0", "a_b", "b", "deep/er/and/deeper", "v1.tmp/link", "z"}

func plant(t *testing.T, s storage.Store) {
	t.Helper()
	var stage storage.Stage
	for _, name := range tree {
		if name != "a" { // files cannot have both /dir/a and /dir/a/z
			stage = append(stage, storage.Change{Key: "/dir/" + name, Content: []byte("x")})
		}
	}
	apply(t, s, append(stage, storage.Change{Key: "/dirt", Content: []byte("x")}, storage.Change{Key: "/dir-2/x", Content: []byte("x")}))
}

func testList(t *testing.T, p pair) {
	plant(t, p.a)
	flat := slices.DeleteFunc(slices.Clone(tree), func(n string) bool { return n == "a" })
	slices.Sort(flat)
	level := []string{"0", "B", "a-b/", "a.b/", "a/", "a0", "a_b", "b", "deep/", "v1.tmp/", "z"}
	p.both(func(s storage.Store) {
		for _, names := range []bool{false, true} {
			if got := list(t, s, "/dir", storage.ListOptions{Names: names}); !slices.Equal(got, level) {
				t.Errorf("List = %q, want %q", got, level)
			}
			if got := list(t, s, "/dir", storage.ListOptions{Flat: true, Names: names}); !slices.Equal(got, flat) {
				t.Errorf("flat List = %q, want %q", got, flat)
			}
		}
	})
	for _, flat := range []bool{false, true} {
		for _, err := range p.a.List(t.Context(), "/dir", storage.ListOptions{Flat: flat}) {
			if err != nil {
				t.Error(err)
			}
			break // List must cope with that
		}
	}
}

// Sizes, dates and versions agree with Stat.
func testListDescribesObjects(t *testing.T, p pair) {
	put(t, p.a, "/dir/a", "123")
	put(t, p.a, "/dir/b/c", "12345")
	for _, key := range []string{"/dir/a", "/dir/b/c"} {
		version(t, p.a, key)
	}
	p.both(func(s storage.Store) {
		for _, flat := range []bool{false, true} {
			for info, err := range s.List(t.Context(), "/dir", storage.ListOptions{Flat: flat}) {
				if err != nil {
					t.Fatal(err)
				}
				if info.Prefix {
					if info.Key != "/dir/b/" {
						t.Errorf("listed the prefix %+v", info)
					}
					continue
				}
				want := stat(t, s, info.Key)
				content, _, err := storage.Read(t.Context(), s, info.Key, 100)
				if err != nil {
					t.Fatal(err)
				}
				if sum := fmt.Sprintf("%x", md5.Sum(content)); info.MD5 != "" && info.MD5 != sum { //nolint:gosec // what stores list, not a signature
					t.Errorf("%s is listed with the MD5 %s, its content has %s", info.Key, info.MD5, sum)
				}
				info.MD5, want.MD5 = "", "" // only listings have it
				if !info.Modified.Equal(want.Modified) {
					t.Errorf("listed with %v, Stat says %v", info.Modified, want.Modified)
				}
				if info.Modified = want.Modified; info != want {
					t.Errorf("listed as %+v, Stat says %+v", info, want)
				}
			}
		}
	})
}

func testListAfter(t *testing.T, p pair) {
	plant(t, p.a)
	for _, flat := range []bool{false, true} {
		all := list(t, p.b, "/dir", storage.ListOptions{Flat: flat})
		afters := []string{"", "/a", "/dir", "/dir/", "/dir/.", "/dir/a", "/dir/a/", "/dir/a/x", "/dir/a/x/", "/dir/a/zz", "/dir/a0", "/dir/zz", "/dirt", "/z"}
		for _, name := range all {
			afters = append(afters, "/dir/"+name)
		}
		for _, after := range afters {
			var want []string
			for _, name := range all {
				if "/dir/"+name > after {
					want = append(want, name)
				}
			}
			if got := list(t, p.b, "/dir", storage.ListOptions{Flat: flat, After: after}); !slices.Equal(got, want) {
				t.Errorf("List(flat %v) after %q = %q, want %q", flat, after, got, want)
			}
		}
	}
}

// testListMany exceeds the number of keys that stores list at once.
func testListMany(t *testing.T, p pair) {
	page := p.scale.Page
	n := page + page/10
	var stage storage.Stage
	var want []string
	for i := range n {
		name := fmt.Sprintf("tag-%s%d", strings.Repeat("x", i%7), i)
		stage = append(stage, storage.Change{Key: "/tags/" + name + "/link", Content: []byte("x"), Ephemeral: true})
		want = append(want, name+"/")
	}
	slices.Sort(want)
	applyMany(t, p.a, stage)
	if got := list(t, p.b, "/tags", storage.ListOptions{Names: true}); !slices.Equal(got, want) {
		t.Errorf("List has %d names, want %d", len(got), n)
	}
	if got := list(t, p.b, "/tags", storage.ListOptions{Flat: true}); len(got) != n {
		t.Errorf("flat List has %d names, want %d", len(got), n)
	}
	for _, i := range []int{0, page - 1, page, page + 1, n - 1} {
		if got := list(t, p.b, "/tags", storage.ListOptions{After: "/tags/" + want[i]}); !slices.Equal(got, want[i+1:]) {
			t.Errorf("List after %q has %d names, want %d", want[i], len(got), n-i-1)
		}
	}
}

func testListNothing(t *testing.T, p pair) {
	put(t, p.a, "/a/b", "x")
	for _, prefix := range []string{"/x", "/a/x", "/a/b", "/a/b/c", "/a/x/y"} {
		for _, flat := range []bool{false, true} {
			if got := list(t, p.b, prefix, storage.ListOptions{Flat: flat}); len(got) != 0 {
				t.Errorf("List(%s) = %q, want nothing", prefix, got)
			}
		}
	}
}

// As long as the version of a prefix stays the same, so do the names below it; Stat and List tell the same.
func testPrefixVersion(t *testing.T, p pair) {
	names := func(s storage.Store) (versions [2]string, names string) {
		info, err := s.Stat(t.Context(), "/dir/")
		if err != nil && !errors.Is(err, storage.ErrNotExist) {
			t.Fatalf("Stat(/dir/): %v", err)
		}
		var listed string
		names = strings.Join(list(t, s, "/dir", storage.ListOptions{Names: true, Version: &listed}), " ")
		return [2]string{info.Version, listed}, names
	}
	seen := map[string]string{}
	for round, c := range []storage.Change{
		{Key: "/dir/a/x", Content: []byte("x")},
		{Key: "/dir/b", Content: []byte("x")},
		{Key: "/dir/c/y", Content: []byte("x")},
		{Key: "/dir/a/x", Delete: true},
		{Key: "/dir/b", Delete: true},
		{Key: "/dir/a/x", Content: []byte("x")},
		{Key: "/dir/b", Content: []byte("y")},
	} {
		apply(t, p.nth(round), storage.Stage{c})
		p.both(func(s storage.Store) {
			for range 10 { // right after a change, and later
				versions, now := names(s)
				for _, v := range versions {
					if was, ok := seen[v]; v != "" && ok && was != now {
						t.Fatalf("version %q stood for %q and stands for %q", v, was, now)
					}
					seen[v] = now
				}
			}
		})
	}
}
