package referrers

import (
	"context"
	"slices"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func sum(b string) oci.Digest { return oci.SHA256.FromBytes([]byte(b)) }

// Anybody may ask for repositories that do not exist, so nothing is remembered of them.
func TestOf_RepositoryThatDoesNotExist_IsNotRemembered(t *testing.T) {
	x := New(tree.NewStore(memory.New(), false), func(context.Context, oci.Digest) (oci.Digest, []oci.Digest, error) { return "", nil, nil })
	if found, err := x.Of(t.Context(), "none", sum("x")); err != nil || len(found) > 0 {
		t.Errorf("found %q, %v", found, err)
	}
	if _, kept := x.repositories.Get("none"); kept {
		t.Error("it is remembered")
	}
}

// A manifest that is gone does not stay in memory, and one that comes again is read again.
func TestOf_FollowsTheRepository(t *testing.T) {
	m, subject := memory.New(), sum("subject")
	reads := 0
	x := New(tree.NewStore(m, false), func(context.Context, oci.Digest) (oci.Digest, []oci.Digest, error) {
		reads++
		return subject, nil, nil
	})
	a, b := sum("a"), sum("b")
	apply := func(d oci.Digest, remove bool) {
		c := storage.Change{Key: layout.RevisionLink("app", d), Content: layout.Link(d)}
		if remove {
			c = storage.Change{Key: c.Key, Delete: true}
		}
		if err := m.Apply(t.Context(), nil, storage.Stage{c}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(wantReads int, want ...oci.Digest) {
		t.Helper()
		slices.Sort(want)
		found, err := x.Of(t.Context(), "app", subject)
		if err != nil || !slices.Equal(found, want) || reads != wantReads {
			t.Errorf("found %q by %d reads, %v, want %q by %d", found, reads, err, want, wantReads)
		}
	}
	apply(a, false)
	want(1, a)
	apply(b, false)
	want(2, a, b)
	apply(a, true)
	want(2, b)
	apply(a, false)
	want(3, a, b)
}
