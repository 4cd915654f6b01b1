package object

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"slipway/registry/internal/storage"
)

// keeping is a bucket with versions as MinIO has them: a delimited listing has the prefixes of deleted objects, too.
type keeping struct {
	*memory
	page    int
	deleted []string
}

func (k *keeping) List(ctx context.Context, prefix string, o ListOptions) (Page, error) {
	page, err := k.memory.List(ctx, prefix, o)
	if o.Delimited {
		for _, key := range k.deleted {
			if strings.HasPrefix(key, prefix) {
				page.Entries = append(page.Entries, Info{Key: key})
			}
		}
		slices.SortFunc(page.Entries, func(x, y Info) int { return strings.Compare(x.Key, y.Key) })
		fold(&page, prefix)
	}
	page.Entries = slices.DeleteFunc(page.Entries, func(e Info) bool { return e.Key <= o.After })
	if page.More = len(page.Entries) > k.page; page.More {
		page.Entries = page.Entries[:k.page]
	}
	return page, err
}

func (k *keeping) Delete(ctx context.Context, key string, c storage.Condition) error {
	k.deleted = append(k.deleted, key)
	return k.memory.Delete(ctx, key, c)
}

// A listing leaves out deleted objects, although the store lists their prefixes, whatever the pages are.
func TestList_PrefixesOfDeletedObjects(t *testing.T) {
	synctest.Test(t, listWithPrefixesOfDeletedObjects)
}

func listWithPrefixesOfDeletedObjects(t *testing.T) {
	for page := 1; page < 12; page++ {
		k := &keeping{memory: newMemory(), page: page}
		f, err := Probe(t.Context(), NewClient(k, "root", k.limits, Timing{}))
		if err != nil || !f.ListsDeleted {
			t.Fatalf("found %+v, %v", f, err)
		}
		s := New(NewClient(k, "root", f.Limits, Timing{}), Options{Spool: t.TempDir()})
		for _, key := range []string{"/l/0", "/l/a-b/x", "/l/a.b/x", "/l/a/gone/x", "/l/a/x", "/l/a/y/z", "/l/b", "/l/c/d/e", "/l/gone/x/y", "/l/last/x"} {
			put(t, s, key)
		}
		for _, key := range []string{"/l/a/gone/x", "/l/gone/x/y", "/l/last/x"} {
			if err := s.Delete(t.Context(), key[1:], &WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct{ dir, after, want string }{
			{"/l", "", "/l/0 /l/a-b/ /l/a.b/ /l/a/ /l/b /l/c/"},
			{"/l", "/l/a.b/", "/l/a/ /l/b /l/c/"},
			{"/l", "/l/a/x", "/l/b /l/c/"},
			{"/l/a", "", "/l/a/x /l/a/y/"},
			{"/l/gone", "", ""},
		} {
			var got []string
			for info, err := range s.List(t.Context(), tt.dir, storage.ListOptions{After: tt.after}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, info.Key)
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("pages of %d: below %s after %q: %s, want %s", page, tt.dir, tt.after, text, tt.want)
			}
		}
	}
	m := newMemory()
	if f, err := Probe(t.Context(), NewClient(m, "root", m.limits, Timing{})); err != nil || f.ListsDeleted {
		t.Errorf("found %+v, %v", f, err)
	}
}
