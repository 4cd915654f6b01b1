package memory

import (
	"slices"
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/storagetest"
)

// What is listed and what has a new version agree, whatever comes and goes.
func TestPrefixVersionFollowsNames(t *testing.T) {
	m := New()
	keys := []string{"/a/b", "/a/b/c", "/a/b/d", "/a-b/x", "/a/e/f/g", "/a.b"}
	prefixes := []string{"/a", "/a/b", "/a/e", "/a/e/f", "/a-b", "/none"}
	type seen struct{ version, prefix string }
	first := map[seen][]string{}
	for i := range 500 {
		c := storage.Change{Key: keys[i*7%len(keys)], Content: []byte("x")}
		c.Delete = i*i%5 > 1
		if err := m.Apply(t.Context(), nil, storage.Stage{c}); err != nil {
			t.Fatal(err)
		}
		for _, p := range prefixes {
			var names []string
			for info := range m.List(t.Context(), p, storage.ListOptions{}) {
				names = append(names, info.Key)
			}
			info, _ := m.Stat(t.Context(), p+"/")
			g := seen{info.Version, p}
			if was, ok := first[g]; ok && g.version != "" && !slices.Equal(was, names) {
				t.Fatalf("version %s of %s stood for %q and stands for %q", g.version, p, was, names)
			}
			first[g] = names
		}
	}
	if len(m.names) > 8 {
		t.Errorf("%d versions are kept of 8 prefixes at most", len(m.names))
	}
}

func TestContract(t *testing.T) {
	storagetest.Run(t, func(*testing.T) (a, b storage.Store) {
		m := New()
		return m, m
	})
}
