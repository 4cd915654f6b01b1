package registry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostiletest"
)

// A deletion among many tags reads the listing and no link, where that has hashes.
func TestRemoteDeletion_ReadsNoOtherTags(t *testing.T) {
	for name, tt := range map[string]struct {
		options hostiletest.Options
		most    int
	}{
		"hashes":    {hostiletest.Options{}, 4},
		"no hashes": {hostiletest.Options{ContentVersions: true}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := hostiletest.New(tt.options)
			p := bucket.Process()
			defer p.Close()
			repo := newRegistry(p, Options{DeleteEnabled: true}).Repository("a")
			other, d := pushImage(t, repo, "other", "x"), pushImage(t, repo, "v1", "y")
			var stage storage.Stage
			for i := range 150 {
				tag := oci.Tag(fmt.Sprintf("tag%03d", i))
				stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag, other), Content: layout.Link(other)},
					storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(other)})
			}
			check(t, p.Apply(t.Context(), nil, stage))
			fresh := again(newRegistry(p, Options{}), Options{DeleteEnabled: true}).Repository("a")
			reads := countReads(bucket)
			removed, err := fresh.DeleteManifest(t.Context(), d)
			check(t, err)
			if n := reads(); !slices.Equal(removed, []oci.Tag{"v1"}) || n > tt.most {
				t.Errorf("removed %q with %d reads, want v1 and at most %d", removed, n, tt.most)
			}
			if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 151 {
				t.Errorf("%d tags are left, %v, want 151", len(tags), err)
			}
		})
	}
}

// Deletions at the same time delete each its own tag.
func TestRemoteDeletions_AtTheSameTime(t *testing.T) {
	p := hostiletest.New(hostiletest.Options{}).Process()
	defer p.Close()
	repo := newRegistry(p, Options{DeleteEnabled: true}).Repository("a")
	var all sync.WaitGroup
	for i := range 9 {
		tag := fmt.Sprint("v", i)
		d := pushImage(t, repo, tag, tag)
		all.Go(func() {
			if removed, err := repo.DeleteManifest(t.Context(), d); err != nil || !slices.Equal(removed, []oci.Tag{oci.Tag(tag)}) {
				t.Errorf("deletion of %s: removed %q, %v", tag, removed, err)
			}
		})
	}
	all.Wait()
	if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 0 {
		t.Errorf("%q are left, %v", tags, err)
	}
}

// countReads counts reads of objects in the tree.
func countReads(b *hostiletest.Bucket) (reads func() int) {
	var n atomic.Int64
	b.SetFault(func(r hostiletest.Request) hostiletest.Fault {
		if (r.Op == "GET" || r.Op == "HEAD") && !strings.Contains(r.Key, "/.slipway/") {
			n.Add(1)
		}
		return hostiletest.None
	})
	return func() int { return int(n.Load()) }
}

// The bytes of a blob are looked at once a second, its link each time.
func TestRemoteBlob_BytesAreLookedAtOnceASecond(t *testing.T) {
	bucket := hostiletest.New(hostiletest.Options{})
	p := bucket.Process()
	defer p.Close()
	now := time.Now()
	repo := newRegistry(p, Options{Now: func() time.Time { return now }}).Repository("a")
	d := pushBlob(t, repo, "x").Digest
	reads := countReads(bucket)
	for look, want := range []int{2, 3, 4} {
		desc, err := repo.StatBlob(t.Context(), d)
		check(t, err)
		if n := reads(); desc.Size != 1 || n != want {
			t.Errorf("after look %d, %d requests were sent, want %d", look+1, n, want)
		}
	}
	now = now.Add(bytesTrusted)
	removeObject(t, p, layout.BlobData(d))
	_, err := repo.StatBlob(t.Context(), d)
	wantCode(t, err, oci.CodeBlobUnknown)
	check(t, repo.reg.store.Apply(t.Context(), nil, storage.Stage{{Key: layout.LayerLink("a", d), Delete: true}}))
	_, err = repo.StatBlob(t.Context(), d)
	wantCode(t, err, oci.CodeBlobUnknown)
}

// Damaged bytes that a push repairs are there at once, whichever replica has repaired them.
func TestRemoteBlob_Repaired_IsThereAtOnce(t *testing.T) {
	for name, damage := range map[string]string{"empty": "", "of another size": "damaged layer"} {
		t.Run(name, func(t *testing.T) {
			bucket := hostiletest.New(hostiletest.Options{})
			p := bucket.Process()
			defer p.Close()
			now := time.Now()
			fixed := Options{Now: func() time.Time { return now }}
			m := simpleImage(t, newRegistry(p, fixed).Repository("a"), "x")
			layer := m.Layers[0].Digest
			content := readBlob(t, newRegistry(p, fixed).Repository("a"), layer)
			for _, other := range []bool{false, true} {
				repo := newRegistry(p, fixed).Repository("a")
				putObject(t, p, layout.BlobData(layer), damage)
				_, err := repo.PutManifest(t.Context(), tagged("t"), "", m.bytes(), nil)
				wantCode(t, err, oci.CodeManifestBlobUnknown)
				_, err = repo.StatBlob(t.Context(), layer)
				wantCode(t, err, oci.CodeBlobUnknown)
				repairs := repo
				if other {
					repairs = newRegistry(p, fixed).Repository("a")
				}
				pushBlob(t, repairs, content)
				if desc, err := repo.StatBlob(t.Context(), layer); err != nil || desc.Size != int64(len(content)) {
					t.Errorf("repaired by another replica: %v: %+v, %v", other, desc, err)
				}
				stored := put(t, repo, tagged("t"), m).Descriptor.Digest
				removeObject(t, p, layout.RevisionLink("a", stored)) // sizes of one that the repository holds aren't checked
			}
			putObject(t, p, layout.BlobData(layer), "damaged, and nobody knows")
			repo := newRegistry(p, fixed).Repository("a")
			_, err := repo.StatBlob(t.Context(), layer)
			check(t, err)
			pushBlob(t, newRegistry(p, fixed).Repository("a"), content)
			put(t, repo, tagged("t"), m)
		})
	}
}
