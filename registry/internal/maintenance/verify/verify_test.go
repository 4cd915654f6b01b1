package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type store = storage.Store

func onStores(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New()) })
	t.Run("filesystem", func(t *testing.T) {
		f, err := filesystem.Open(t.TempDir())
		check(t, err)
		t.Cleanup(func() { f.Close() })
		test(t, f)
	})
	for name, o := range map[string]hostiletest.Options{"hostile": {}, "content versions": {ContentVersions: true}} {
		t.Run(name, func(t *testing.T) {
			p := hostiletest.New(o).Process()
			t.Cleanup(func() { p.Close() })
			test(t, p)
		})
	}
}

func rules(s store) *registry.Registry {
	_, remote := s.(*hostiletest.Process)
	return registry.New(registry.Options{Store: s, DeleteEnabled: true, Remote: remote})
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

// push pushes an image of one layer and returns the digests of its manifest,
// its config and its layer.
func push(t *testing.T, repo registry.Repository, tag, layer string) [3]oci.Digest {
	t.Helper()
	config := "config of " + layer
	d := registrytest.PushImage(t, repo, oci.Tag(tag), config, layer)
	return [3]oci.Digest{d.Digest, sum(config), sum(layer)}
}

func run(t *testing.T, s storage.Store, repair bool) *Report {
	t.Helper()
	r, err := Run(t.Context(), Options{Store: s, Log: zap.NewNop(), Repair: repair})
	check(t, err)
	return r
}

// text is the findings, sorted.
func (r *Report) text() string {
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, strings.TrimRight(fmt.Sprint(f.Kind, " ", f.Repository, ":", f.Tag, " ", f.Digest), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func write(t *testing.T, s storage.Store, key, content string) {
	t.Helper()
	check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content)}}))
}

func remove(t *testing.T, s storage.Store, key string) {
	t.Helper()
	check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: key, Delete: true}}))
}

func read(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	content, _, err := storage.Read(t.Context(), s, key, 1<<20)
	check(t, err)
	return string(content)
}

func TestHealthy(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		push(t, rules(s).Repository("a"), "v1", "x")
		push(t, rules(s).Repository("a/b"), "v1", "y")
		r := run(t, s, true)
		if r.Open() != 0 || r.Repositories != 2 || r.Manifests != 2 || r.Tags != 2 || r.Blobs != 6 || r.Resumed {
			t.Errorf("got %+v", r)
		}
	})
}

// Somebody who watches a verification sees what it has read. The links come first.
func TestProgress(t *testing.T) {
	s := memory.New()
	push(t, rules(s).Repository("a"), "v1", "x")
	p := &schedule.Progress{}
	o := Options{Store: s, Log: zap.NewNop(), Progress: p}
	o.Partial = func(oci.Name) bool {
		if p.Phase() != "checking links" || p.Repositories.Load() != 1 || p.Manifests.Load() != 1 {
			t.Errorf("%s: %d repositories and %d manifests", p.Phase(), p.Repositories.Load(), p.Manifests.Load())
		}
		return false
	}
	r, err := Run(t.Context(), o)
	check(t, err)
	if p.Phase() != "reading blobs" || p.Manifests.Load() != 0 || p.Blobs.Load() != 3 || p.Bytes.Load() != r.Bytes || r.Bytes == 0 {
		t.Errorf("%s: %d blobs with %d bytes of %+v", p.Phase(), p.Blobs.Load(), p.Bytes.Load(), r)
	}
}

// What a cache has not fetched yet is no problem; what it has must be right.
func TestPartialRepositories(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		cached := push(t, rules(s).Repository("hub/a"), "v1", "x")
		local := push(t, rules(s).Repository("a"), "v1", "y")
		for _, d := range [][2]any{{oci.Name("hub/a"), cached[2]}, {oci.Name("a"), local[2]}} {
			remove(t, s, layout.LayerLink(d[0].(oci.Name), d[1].(oci.Digest)))
		}
		write(t, s, layout.BlobData(cached[1]), "other")
		r, err := Run(t.Context(), Options{Store: s, Log: zap.NewNop(), Partial: func(name oci.Name) bool { return name == "hub/a" }})
		check(t, err)
		want := fmt.Sprintf("damaged_blob hub/a:v1 %s\nmissing_blob a: %s", cached[1], local[2])
		if got := r.text(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestFindingsAndRepair(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		repo := rules(s).Repository("a")
		damaged, lost := push(t, repo, "damaged", "x"), push(t, repo, "lost", "y")
		gone, empty := push(t, repo, "gone", "z"), push(t, repo, "empty", "w")
		unlinked := push(t, repo, "unlinked", "v")
		child := push(t, repo, "child", "u")
		m, err := repo.Manifest(t.Context(), oci.Reference{Tag: "child"})
		check(t, err)
		list := registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{m.Descriptor}}, "list")

		write(t, s, layout.BlobData(damaged[2]), "other")
		remove(t, s, layout.BlobData(lost[2]))
		remove(t, s, layout.BlobData(gone[0]))
		write(t, s, layout.TagCurrent("a", "empty"), "")
		remove(t, s, layout.LayerLink("a", unlinked[1]))
		remove(t, s, layout.RevisionLink("a", child[0]))
		write(t, s, layout.RevisionLink("a", sum("nowhere")), string(sum("elsewhere")))

		want := strings.Join([]string{
			"bad_link a: " + string(sum("nowhere")),
			"bad_link a:empty",
			"damaged_blob a:damaged " + string(damaged[2]),
			"dangling_layer a: " + string(lost[2]),
			"dangling_manifest a: " + string(gone[0]),
			"dangling_tag a:child " + string(child[0]),
			"dangling_tag a:gone " + string(gone[0]),
			"missing_blob a: " + string(lost[2]),
			"missing_blob a: " + string(unlinked[1]),
			"missing_manifest a: " + string(child[0]),
		}, "\n")
		before := run(t, s, false)
		if got := before.text(); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if err := before.ErrFound(); err == nil || err.Error() != "10 problems found, 0 quarantined" || before.Quarantined != 0 {
			t.Errorf("a look ends with %v", err)
		}
		got := run(t, s, true)
		for _, f := range got.Findings {
			if f.Quarantine != "" {
				read(t, s, f.Quarantine)
			}
		}
		if err := got.ErrFound(); err == nil || err.Error() != "12 problems found, 8 quarantined" {
			t.Errorf("the repair ends with %v:\n%s", err, got.text())
		}
		want = strings.Join([]string{
			"missing_blob a: " + string(damaged[2]),
			"missing_blob a: " + string(lost[2]),
			"missing_blob a: " + string(unlinked[1]),
			"missing_manifest a: " + string(child[0]),
		}, "\n")
		if got := run(t, s, true).text(); got != want {
			t.Errorf("after the repair\n%s\nwant\n%s", got, want)
		}
		if _, err := repo.Manifest(t.Context(), oci.Reference{Digest: empty[0]}); err != nil {
			t.Errorf("the manifest of the bad tag: %v", err)
		}
		// Pushes repair the rest.
		tags, _, err := repo.Tags(t.Context(), -1, "")
		check(t, err)
		if strings.Join(tags, " ") != "damaged list lost unlinked" {
			t.Errorf("tags are %v", tags)
		}
		for tag, layer := range map[string]string{"damaged": "x", "lost": "y", "unlinked": "v", "child": "u"} {
			push(t, repo, tag, layer)
		}
		if got := run(t, s, false).text(); got != "" {
			t.Errorf("after the pushes\n%s", got)
		}
		_ = list
	})
}

// A damaged blob is reported with an image that it breaks, one with a tag if there is one.
func TestDamagedBlob_NamesWhatUsesIt(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		a, b := rules(s).Repository("a"), rules(s).Repository("b/c")
		loose := push(t, a, "loose", "x")
		child := push(t, b, "child", "z")
		m, err := b.Manifest(t.Context(), oci.Reference{Tag: "child"})
		check(t, err)
		registrytest.PutManifest(t, b, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{m.Descriptor}}, "list")
		_, err = a.DeleteTag(t.Context(), "loose")
		check(t, err)
		_, err = b.DeleteTag(t.Context(), "child")
		check(t, err)
		config := push(t, a, "own", "y")[1]
		alone, linked := sum("nobody has it"), registrytest.Push(t, a, "no manifest has it").Digest
		for _, d := range []oci.Digest{loose[2], config, child[0], alone, linked} {
			write(t, s, layout.BlobData(d), "other")
		}
		for _, repair := range []bool{false, true} {
			got := map[oci.Digest]Finding{}
			for _, f := range run(t, s, repair).Findings {
				if f.Kind == DamagedBlob {
					got[f.Digest] = Finding{Repository: f.Repository, Tag: f.Tag, By: f.By}
				}
			}
			want := map[oci.Digest]Finding{
				loose[2]: {Repository: "a", By: loose[0]},
				config:   {Repository: "a", Tag: "own", By: push(t, rules(memory.New()).Repository("a"), "own", "y")[0]},
				child[0]: {Repository: "b/c", Tag: "list", By: got[child[0]].By},
				linked:   {Repository: "a"},
				alone:    {},
			}
			if !maps.Equal(got, want) || got[child[0]].By == "" {
				t.Errorf("repair %v: got %+v\nwant %+v", repair, got, want)
			}
		}
	})
}

// What an index lists may be a blob, as in the caches of BuildKit; and manifests of
// schema 1 have layers, too.
func TestBlobsOfOtherManifests(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		repo := rules(s).Repository("a")
		lost, kept := registrytest.Push(t, repo, "lost"), registrytest.Push(t, repo, "kept")
		lost.MediaType, kept.MediaType = "application/vnd.oci.image.layer.v1.tar", "application/vnd.buildkit.cacheconfig.v0"
		registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{lost, kept}}, "cache")
		old := `{"schemaVersion":1,"fsLayers":[{"blobSum":"` + string(sum("older")) + `"},{"blobSum":"` + string(sum("kept")) + `"},{"blobSum":"x"}]}`
		write(t, s, layout.BlobData(sum(old)), old)
		write(t, s, layout.RevisionLink("a", sum(old)), string(sum(old)))
		remove(t, s, layout.BlobData(lost.Digest))
		want := []string{"dangling_layer a: " + string(lost.Digest), "missing_blob a: " + string(lost.Digest), "missing_blob a: " + string(sum("older"))}
		slices.Sort(want)
		if r := run(t, s, false); r.text() != strings.Join(want, "\n") {
			t.Errorf("got %s", r.text())
		}
	})
}

// What is pushed between the look and the repair stays.
func TestRepairKeepsWhatIsPushedMeanwhile(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		key := layout.BlobData(sum("x"))
		write(t, s, key, "damaged")
		v := &verification{Options: Options{Store: s, Log: zap.NewNop(), Repair: true}, report: Report{Found: map[Kind]int{}}}
		seen, err := v.stat(t.Context(), key)
		check(t, err)
		write(t, s, key, "x")
		v.found(t.Context(), Finding{Kind: DamagedBlob, Digest: sum("x"), Path: key}, &seen)
		if v.report.Quarantined != 0 {
			t.Error("it was quarantined")
		}
		if got := read(t, s, key); got != "x" {
			t.Errorf("in its place is %q", got)
		}
		for info := range s.List(t.Context(), layout.Quarantine, storage.ListOptions{Flat: true}) {
			t.Errorf("in the quarantine is %s", info.Key)
		}
	})
}

// Large blobs are copied piece by piece.
func TestQuarantineOfALargeBlob(t *testing.T) {
	onStores(t, func(t *testing.T, s store) {
		content := strings.Repeat("0123456789", maxSmall/2)
		write(t, s, layout.BlobData(sum("x")), content)
		r := run(t, s, true)
		if r.Quarantined != 1 || r.ErrFound() != nil {
			t.Fatalf("got %+v", r)
		}
		got, _, err := storage.Read(t.Context(), s, r.Findings[0].Quarantine, int64(len(content)))
		if err != nil || string(got) != content {
			t.Errorf("%d bytes are in the quarantine, %v", len(got), err)
		}
	})
}

// A verification that ends in the middle goes on there, and keeps what it found.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		repo := rules(s).Repository("a")
		for i := range 20 {
			registrytest.Push(t, repo, strings.Repeat("x", 1000)+fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		o := Options{Store: s, Log: zap.NewNop(), Rate: 1000}
		var first oci.Digest // is verified before the end
		for b, err := range tree.Blobs(t.Context(), s, "") {
			check(t, err)
			first = b.Digest
			break
		}
		write(t, s, layout.BlobData(first), "damaged")
		part, err := Run(ctx, o)
		if err == nil || part.Blobs < 5 || part.Blobs > 15 {
			t.Fatalf("%d blobs, %v", part.Blobs, err)
		}
		o.Rate = 0
		rest, err := Run(t.Context(), o)
		check(t, err)
		if !rest.Resumed || rest.Blobs != 20 || rest.Found[DamagedBlob] != 1 || !rest.Started.Equal(part.Started) {
			t.Errorf("got %+v", rest)
		}
		if again, err := Run(t.Context(), o); err != nil || again.Resumed || again.Blobs != 20 {
			t.Errorf("got %+v, %v", again, err)
		}
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		registrytest.Push(t, rules(s).Repository("a"), strings.Repeat("x", 5<<20))
		start := time.Now()
		_, err := Run(t.Context(), Options{Store: s, Log: zap.NewNop(), Rate: 1 << 20})
		check(t, err)
		if took := time.Since(start); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("5 MiB at 1 MiB/s took %v", took)
		}
	})
}
