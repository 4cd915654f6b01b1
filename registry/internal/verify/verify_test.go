package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/filesystem"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func onDrivers(t *testing.T, test func(t *testing.T, d driver.Driver)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New()) })
	t.Run("filesystem", func(t *testing.T) {
		d, err := filesystem.Open(t.TempDir())
		check(t, err)
		t.Cleanup(func() { d.Close() })
		test(t, d)
	})
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func pushBlob(t *testing.T, repo registry.Repository, content string) oci.Descriptor {
	t.Helper()
	u, err := repo.StartUpload(t.Context(), "")
	check(t, err)
	defer u.Close()
	_, err = u.Append(t.Context(), strings.NewReader(content))
	check(t, err)
	desc, err := u.Commit(t.Context(), sum(content))
	check(t, err)
	return desc
}

// push pushes an image of one layer and returns the digests of its manifest,
// its config and its layer.
func push(t *testing.T, repo registry.Repository, tag, layer string) [3]oci.Digest {
	t.Helper()
	config, l := pushBlob(t, repo, "config of "+layer), pushBlob(t, repo, layer)
	config.MediaType = "application/vnd.oci.image.config.v1+json"
	d := put(t, repo, tag, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": []any{l}})
	return [3]oci.Digest{d, config.Digest, l.Digest}
}

func put(t *testing.T, repo registry.Repository, tag string, m any) oci.Digest {
	t.Helper()
	body, err := json.Marshal(m)
	check(t, err)
	res, err := repo.PutManifest(t.Context(), oci.Reference{Tag: oci.Tag(tag)}, "", body, nil)
	check(t, err)
	return res.Descriptor.Digest
}

func run(t *testing.T, d driver.Driver, repair bool) *Report {
	t.Helper()
	r, err := Run(t.Context(), Options{Driver: d, Log: zap.NewNop(), Repair: repair})
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

func write(t *testing.T, d driver.Driver, path, content string) {
	t.Helper()
	check(t, d.WriteScratch(t.Context(), path, []byte(content)))
}

func TestHealthy(t *testing.T) {
	onDrivers(t, func(t *testing.T, d driver.Driver) {
		rules := registry.New(registry.Options{Driver: d})
		push(t, rules.Repository("a"), "v1", "x")
		push(t, rules.Repository("a/b"), "v1", "y")
		r := run(t, d, true)
		if r.Open() != 0 || r.Repositories != 2 || r.Manifests != 2 || r.Tags != 2 || r.Blobs != 6 || r.Resumed {
			t.Errorf("got %+v", r)
		}
	})
}

func TestFindingsAndRepair(t *testing.T) {
	onDrivers(t, func(t *testing.T, d driver.Driver) {
		rules := registry.New(registry.Options{Driver: d, DeleteEnabled: true})
		repo := rules.Repository("a")
		damaged, lost := push(t, repo, "damaged", "x"), push(t, repo, "lost", "y")
		gone, empty := push(t, repo, "gone", "z"), push(t, repo, "empty", "w")
		unlinked := push(t, repo, "unlinked", "v")
		child := push(t, repo, "child", "u")
		m, err := repo.Manifest(t.Context(), oci.Reference{Tag: "child"})
		check(t, err)
		list := put(t, repo, "list", map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{m.Descriptor}})

		write(t, d, layout.BlobData(damaged[2]), "other")
		check(t, d.Remove(t.Context(), layout.BlobData(lost[2])))
		check(t, d.Remove(t.Context(), layout.BlobData(gone[0])))
		write(t, d, layout.TagCurrent("a", "empty"), "")
		check(t, d.Remove(t.Context(), layout.LayerLink("a", unlinked[1])))
		check(t, d.Remove(t.Context(), layout.RevisionLink("a", child[0])))
		write(t, d, layout.RevisionLink("a", sum("nowhere")), string(sum("elsewhere")))

		want := strings.Join([]string{
			"bad_link a: " + string(sum("nowhere")),
			"bad_link a:empty",
			"damaged_blob : " + string(damaged[2]),
			"dangling_layer a: " + string(lost[2]),
			"dangling_manifest a: " + string(gone[0]),
			"dangling_tag a:child " + string(child[0]),
			"dangling_tag a:gone " + string(gone[0]),
			"missing_blob a: " + string(lost[2]),
			"missing_blob a: " + string(unlinked[1]),
			"missing_manifest a: " + string(child[0]),
		}, "\n")
		before := run(t, d, false)
		if got := before.text(); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if before.ErrFound() == nil || before.Repaired != 0 {
			t.Error("a look counts as repair")
		}
		if got := run(t, d, true); got.text() != want || got.Repaired != 7 {
			t.Fatalf("%d repaired of\n%s", got.Repaired, got.text())
		} else {
			for _, f := range got.Findings {
				if f.Aside != "" {
					if _, err := d.Stat(t.Context(), f.Aside); err != nil {
						t.Errorf("%s is not in the quarantine: %v", f.Path, err)
					}
				}
			}
		}
		want = strings.Join([]string{
			"dangling_layer a: " + string(damaged[2]), // of what was put aside
			"missing_blob a: " + string(damaged[2]),
			"missing_blob a: " + string(lost[2]),
			"missing_blob a: " + string(unlinked[1]),
			"missing_manifest a: " + string(child[0]),
		}, "\n")
		if got := run(t, d, true).text(); got != want {
			t.Errorf("after the repair\n%s\nwant\n%s", got, want)
		}
		if _, err := repo.Manifest(t.Context(), oci.Reference{Digest: empty[0]}); err != nil {
			t.Errorf("the manifest of the bad tag: %v", err)
		}
		// Pushes mend the rest.
		tags, _, err := repo.Tags(t.Context(), -1, "")
		check(t, err)
		if strings.Join(tags, " ") != "damaged list lost unlinked" {
			t.Errorf("tags are %v", tags)
		}
		for tag, layer := range map[string]string{"damaged": "x", "lost": "y", "unlinked": "v", "child": "u"} {
			push(t, repo, tag, layer)
		}
		if got := run(t, d, false).text(); got != "" {
			t.Errorf("after the pushes\n%s", got)
		}
		_ = list
	})
}

// What is pushed between the look and the repair is not kept away.
// What an index lists may be a blob, as in the caches of BuildKit; and manifests of
// schema 1 have layers, too.
func TestBlobsOfOtherManifests(t *testing.T) {
	onDrivers(t, func(t *testing.T, d driver.Driver) {
		repo := registry.New(registry.Options{Driver: d}).Repository("a")
		lost, kept := pushBlob(t, repo, "lost"), pushBlob(t, repo, "kept")
		lost.MediaType, kept.MediaType = "application/vnd.oci.image.layer.v1.tar", "application/vnd.buildkit.cacheconfig.v0"
		put(t, repo, "cache", map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{lost, kept}})
		old := `{"schemaVersion":1,"fsLayers":[{"blobSum":"` + string(sum("older")) + `"},{"blobSum":"` + string(sum("kept")) + `"},{"blobSum":"x"}]}`
		write(t, d, layout.BlobData(sum(old)), old)
		write(t, d, layout.RevisionLink("a", sum(old)), string(sum(old)))
		check(t, d.Remove(t.Context(), layout.BlobData(lost.Digest)))
		want := []string{"dangling_layer a: " + string(lost.Digest), "missing_blob a: " + string(lost.Digest), "missing_blob a: " + string(sum("older"))}
		slices.Sort(want)
		if r := run(t, d, false); r.text() != strings.Join(want, "\n") {
			t.Errorf("got %s", r.text())
		}
	})
}

func TestRepairIsNoRace(t *testing.T) {
	onDrivers(t, func(t *testing.T, d driver.Driver) {
		path := layout.BlobData(sum("x"))
		write(t, d, path, "damaged")
		state, err := d.Stat(t.Context(), path)
		check(t, err)
		time.Sleep(10 * time.Millisecond)
		write(t, d, path, "x")
		v := &verification{Options: Options{Driver: d, Log: zap.NewNop(), Repair: true}, report: Report{Found: map[Kind]int{}}}
		v.found(t.Context(), Finding{Kind: DamagedBlob, Digest: sum("x"), Path: path}, &state)
		if v.report.Repaired != 0 {
			t.Error("it was put aside")
		}
		if got, err := d.ReadFile(t.Context(), path, 10); err != nil || !bytes.Equal(got, []byte("x")) {
			t.Errorf("in its place is %q, %v", got, err)
		}
	})
}

// A verification that ends in the middle goes on there, and keeps what it found.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		repo := registry.New(registry.Options{Driver: d}).Repository("a")
		for i := range 20 {
			pushBlob(t, repo, strings.Repeat("x", 1000)+fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		o := Options{Driver: d, Log: zap.NewNop(), Rate: 1000}
		var first oci.Digest // is verified before the end
		for e, err := range d.List(t.Context(), layout.Blobs+"/sha256", "") {
			check(t, err)
			for inner, err := range d.List(t.Context(), layout.Blobs+"/sha256/"+e.Name, "") {
				check(t, err)
				if first == "" {
					first = oci.Digest("sha256:" + inner.Name)
				}
			}
		}
		write(t, d, layout.BlobData(first), "damaged")
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
		d := memory.New()
		pushBlob(t, registry.New(registry.Options{Driver: d}).Repository("a"), strings.Repeat("x", 5<<20))
		start := time.Now()
		_, err := Run(t.Context(), Options{Driver: d, Log: zap.NewNop(), Rate: 1 << 20})
		check(t, err)
		if took := time.Since(start); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("5 MiB at 1 MiB/s took %v", took)
		}
	})
}
