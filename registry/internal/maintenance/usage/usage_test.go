package usage

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func write(t *testing.T, s storage.Store, key, content string) {
	t.Helper()
	check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content)}}))
}

func TestCount(t *testing.T) {
	m := memory.New()
	rules := registry.New(registry.Options{Store: m})
	a, b := rules.Repository("a"), rules.Repository("a/b")
	registrytest.Push(t, a, "own!")
	registrytest.Push(t, a, "shared by all")
	registrytest.Push(t, b, "shared by all")
	registrytest.Push(t, rules.Repository("c"), "shared by all")
	const index = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`
	registrytest.Push(t, b, index) // as a blob and as a manifest, it is there once
	_, err := b.PutManifest(t.Context(), oci.Reference{Tag: "v1"}, "", []byte(index), []oci.Tag{"v2"})
	check(t, err)
	write(t, m, layout.BlobData(sum("nobody's")), "nobody's")
	write(t, m, layout.LayerLink("c", sum("lost")), string(sum("lost")))
	write(t, m, layout.LayerLink("Of/distribution", sum("shared by all")), string(sum("shared by all")))
	write(t, m, layout.LayerLink("empty", sum("lost")), string(sum("lost")))
	u, err := rules.Repository("only/uploads").StartUpload(t.Context(), "")
	check(t, err)
	_, err = u.Append(t.Context(), strings.NewReader("unfinished"), -1)
	check(t, err)
	check(t, u.Close())

	got, err := Count(t.Context(), m, rules)
	check(t, err)
	size := int64(len(index))
	want := &Report{
		Repositories: []Repository{
			{Name: "Of/distribution", Blobs: 1, Bytes: 13},
			{Name: "a", Blobs: 2, Bytes: 17, Own: 4},
			{Name: "a/b", Tags: 2, Manifests: 1, Blobs: 2, Bytes: 13 + size, Own: size},
			{Name: "c", Blobs: 1, Bytes: 13},
		},
		Blobs: 3, Bytes: 17 + size, Shared: 13, Orphans: 1, Orphaned: 8, Uploads: 1, Uploading: 10,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A link that cannot be read is reported, and what others lead to is counted.
func TestCountReportsBadLinks(t *testing.T) {
	m := memory.New()
	rules := registry.New(registry.Options{Store: m})
	registrytest.Push(t, rules.Repository("a"), "one")
	for _, path := range []string{layout.LayerLink("a", sum("x")), layout.LayerLink("a", sum("y")), layout.RevisionLink("a", sum("z"))} {
		write(t, m, path, "")
	}
	got, err := Count(t.Context(), m, rules)
	check(t, err)
	if len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0], "a: 3 links cannot be read, such as "+layout.LayerLink("a", min(sum("x"), sum("y")))+": ") || got.Blobs != 1 {
		t.Errorf("got %+v", got)
	}
}

// A repository that may not be read is named once, and its blobs are not taken for
// those of nobody.
func TestCountWhatMayNotBeRead(t *testing.T) {
	m := memory.New()
	rules := registry.New(registry.Options{Store: m})
	registrytest.Push(t, rules.Repository("a"), "readable")
	registrytest.Push(t, rules.Repository("o"), "hidden")
	s := &hookedtest.Store{Store: m, OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.List && strings.HasPrefix(key, layout.Repository("o")) {
			return fmt.Errorf("list %s: %w: permission denied", key, storage.ErrDenied)
		}
		return nil
	}}
	got, err := Count(t.Context(), s, registry.New(registry.Options{Store: s}))
	check(t, err)
	if want := []string{"o: permission denied on the storage"}; !reflect.DeepEqual(got.Problems, want) {
		t.Errorf("problems are %q, want %q", got.Problems, want)
	}
	if !got.Incomplete || got.Orphans != 0 || got.Orphaned != 0 || got.Blobs != 1 {
		t.Errorf("got %+v", got)
	}
}

// A count lists, five times a repository, and asks for no object.
func TestRequests(t *testing.T) {
	var requests atomic.Int32
	c := &hookedtest.Store{Store: memory.New(), OnRead: func(context.Context, hookedtest.Op, string) error { requests.Add(1); return nil }}
	rules := registry.New(registry.Options{Store: c})
	const repositories = 50
	for i := range repositories {
		repo := rules.Repository(oci.Name(fmt.Sprint("r", i)))
		for j := range 10 {
			registrytest.Push(t, repo, fmt.Sprint("blob ", i, " ", j))
		}
	}
	requests.Store(0)
	report, err := Count(t.Context(), c, rules)
	check(t, err)
	if got := requests.Load(); got > 5*repositories+10 || report.Blobs != 10*repositories {
		t.Errorf("%d requests for %d repositories with %d blobs", got, repositories, report.Blobs)
	}
}
