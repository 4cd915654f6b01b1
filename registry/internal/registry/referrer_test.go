package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/validation"
	"slipway/registry/internal/storage"
)

// refer pushes a manifest with the subject, by digest, and returns its digest.
func refer(t testing.TB, repo Repository, subject oci.Digest, seed string, change func(*image)) oci.Digest {
	t.Helper()
	m := simpleImage(t, repo, seed)
	m.Subject = &oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: subject, Size: 6}
	if change != nil {
		change(&m)
	}
	res := put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(m.bytes())}, m)
	if res.Subject != subject {
		t.Errorf("the push answers the subject %q", res.Subject)
	}
	return res.Descriptor.Digest
}

func listReferrers(t testing.TB, repo Repository, subject oci.Digest, artifactType string) []oci.Descriptor {
	t.Helper()
	descs, page, err := repo.Referrers(context.Background(), subject, artifactType, "", 0)
	check(t, err)
	if page.Next != "" || descs == nil {
		t.Errorf("%d referrers and more after %q", len(descs), page.Next)
	}
	return descs
}

func digestsOf(descs []oci.Descriptor) []oci.Digest {
	var ds []oci.Digest
	for _, d := range descs {
		ds = append(ds, d.Digest)
	}
	return ds
}

func TestReferrersFollowEveryChange(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo, subject := context.Background(), r.Repository("a"), sum("subject")
		foreign := again(r, Options{DeleteEnabled: true}).Repository("a")
		var want []oci.Digest
		expect := func() {
			t.Helper()
			slices.Sort(want)
			for range 2 {
				if got := digestsOf(listReferrers(t, repo, subject, "")); !slices.Equal(got, want) {
					t.Fatalf("listed %v, want %v", got, want)
				}
				settle(t)
			}
		}
		drop := func(d oci.Digest) {
			want = slices.DeleteFunc(want, func(e oci.Digest) bool { return e == d })
		}
		for i := range 3 {
			want = append(want, refer(t, repo, subject, fmt.Sprint("own", i), nil))
			expect()
			want = append(want, refer(t, foreign, subject, fmt.Sprint("foreign", i), nil))
			expect()
		}
		gone := want[0]
		_, err := repo.DeleteManifest(ctx, gone)
		check(t, err)
		drop(gone)
		expect()
		gone = want[0]
		_, err = foreign.DeleteManifest(ctx, gone)
		check(t, err)
		drop(gone)
		expect()
		// Linked again.
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.RevisionLink("a", gone), Content: layout.Link(gone)}}))
		want = append(want, gone)
		expect()
		// A collector deletes it.
		removeObject(t, r.store, layout.RevisionLink("a", gone))
		drop(gone)
		expect()
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.RevisionLink("a", gone), Content: layout.Link(gone)}}))
		want = append(want, gone)
		expect()
		// The link is there before the bytes are.
		late := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","subject":{"digest":"` + string(subject) + `"}}`)
		d := oci.SHA256.FromBytes(late)
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.RevisionLink("a", d), Content: layout.Link(d)}}))
		expect()
		check(t, r.store.Apply(ctx, nil, storage.Stage{{Key: layout.BlobData(d), Content: late}}))
		want = append(want, d)
		expect()
	})
}

// One bad manifest must not hide the good ones.
func TestReferrersPassOverBadManifests(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo, subject := context.Background(), r.Repository("a"), sum("subject")
		good, bad := refer(t, repo, subject, "good", nil), refer(t, repo, subject, "bad", nil)
		overwrite(t, r, bad, "{}")
		d := sum("no manifest")
		overwrite(t, r, d, "no manifest")
		check(t, r.store.Apply(ctx, nil, storage.Stage{
			{Key: layout.RevisionLink("a", d), Content: layout.Link(d)},
			{Key: layout.Revisions("a", oci.SHA256) + "/stray/file", Content: []byte("x")},
		}))
		repo = again(r, Options{}).Repository("a")
		if got := digestsOf(listReferrers(t, repo, subject, "")); !slices.Equal(got, []oci.Digest{good}) {
			t.Errorf("listed %v, want %v", got, good)
		}
	})
}

func TestFallbackTag(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo, subject := context.Background(), r.Repository("a"), sum("subject")
		both := refer(t, repo, subject, "both", nil)
		m := simpleImage(t, repo, "listed only")
		only := put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(m.bytes())}, m).Descriptor
		list := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{
			only, {MediaType: oci.MediaTypeManifest, Digest: both}, {MediaType: oci.MediaTypeManifest, Digest: sum("gone"), Size: 4},
		}}
		loose := again(r, Options{Validation: validation.Rules{Disabled: true}}).Repository("a")
		put(t, loose, oci.Reference{Tag: oci.Tag("sha256-" + subject.Hex())}, list)
		want := []oci.Digest{both, only.Digest}
		slices.Sort(want)
		if got := digestsOf(listReferrers(t, repo, subject, "")); !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		_, err := repo.DeleteManifest(ctx, only.Digest)
		check(t, err)
		if got := digestsOf(listReferrers(t, repo, subject, "")); !slices.Equal(got, []oci.Digest{both}) {
			t.Errorf("listed %v, want %v", got, both)
		}
	})
}

func TestFallbackTagName(t *testing.T) {
	d := oci.SHA512.FromBytes(nil)
	if got := fallbackTag(d); got != oci.Tag("sha512-"+d.Hex()[:64]) {
		t.Errorf("got %s", got)
	}
}

func TestReferrersInPages(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo, subject := context.Background(), r.Repository("a"), sum("subject")
		var want []oci.Digest
		for i := range 7 {
			want = append(want, refer(t, repo, subject, fmt.Sprint(i), func(m *image) {
				m.ArtifactType = fmt.Sprintf("type/%d", i%2)
			}))
		}
		slices.Sort(want)
		for _, limit := range []int{1, 2, 3, 7, 8} {
			var got []oci.Digest
			for after, pages := "", 1; ; pages++ {
				descs, page, err := repo.Referrers(ctx, subject, "", after, limit)
				check(t, err)
				got = append(got, digestsOf(descs)...)
				if page.Next == "" {
					if wantPages := (7 + limit - 1) / limit; pages != wantPages {
						t.Errorf("%d pages of %d, want %d", pages, limit, wantPages)
					}
					break
				}
				after = page.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
		descs, page, err := repo.Referrers(ctx, subject, "type/1", "", 3)
		check(t, err)
		if len(descs) != 3 || page.Next != "" {
			t.Errorf("all three of a type in one page: %d, next %q", len(descs), page.Next)
		}
	})
}

// A filter that leaves everything out reads no more of it in a request.
func TestReferrersFilterIsBounded(t *testing.T) {
	ctx, subject := context.Background(), sum("subject")
	repo := newRegistry(stores["memory"](t), Options{}).Repository("a")
	const n, size = 12, 3 << 20
	for i := range n {
		refer(t, repo, subject, fmt.Sprint(i), func(m *image) {
			m.Annotations = map[string]string{"big": strings.Repeat("x", size)}
		})
	}
	pages := 1
	for after := ""; ; pages++ {
		descs, page, err := repo.Referrers(ctx, subject, "type/none", after, 0)
		check(t, err)
		if len(descs) > 0 {
			t.Fatalf("the filter leaves %d", len(descs))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := 2; pages != want {
		t.Errorf("%d MiB are read in %d requests, want %d", n*size>>20, pages, want)
	}
}

// A page is bounded in bytes, whatever the annotations.
func TestReferrersPageIsBounded(t *testing.T) {
	ctx, subject := context.Background(), sum("subject")
	repo := newRegistry(stores["memory"](t), Options{}).Repository("a")
	for i := range 5 {
		refer(t, repo, subject, fmt.Sprint(i), func(m *image) {
			m.Annotations = map[string]string{"big": strings.Repeat("x", 1<<20)}
		})
	}
	total := 0
	for after := ""; ; {
		descs, page, err := repo.Referrers(ctx, subject, "", after, 0)
		check(t, err)
		if len(descs) == 0 || len(descs) > 2 {
			t.Fatalf("%d of a MiB each in one page", len(descs))
		}
		total += len(descs)
		if after = page.Next; after == "" {
			break
		}
	}
	if total != 5 {
		t.Errorf("%d of 5 listed", total)
	}
}
