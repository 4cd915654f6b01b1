package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// A large repository of a remote store lists exactly the tags that have a link, in each size of
// page, at the first time and again, whatever other processes have changed in between.
func TestRemoteTags_LargeRepository_FollowsEveryChange(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	bucket := hostile.New(hostile.Options{})
	p, other := bucket.Process(), bucket.Process()
	defer p.Close()
	defer other.Close()
	repo := newRegistry(p, Options{DeleteEnabled: true}).Repository("a")
	tags := map[string]bool{} // has a link
	change := func(n int) {
		var stage storage.Stage
		for range n {
			name := fmt.Sprintf("v%d%s", random.IntN(1500), []string{"", "", "-a", ".1", "-a.1", "0"}[random.IntN(6)])
			if _, has := tags[name]; has {
				continue
			}
			tag, err := oci.ParseTag(name)
			check(t, err)
			stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag, sum("x")), Content: layout.Link(sum("x"))})
			if tags[name] = random.IntN(5) > 0; tags[name] { // else it is being pushed
				stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(sum("x"))})
			}
		}
		check(t, other.Apply(context.Background(), nil, stage))
	}
	change(3000)
	want := func() (names []string) {
		for name, linked := range tags {
			if linked {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	for round := range 4 {
		all := want()
		if round == 0 && len(all) < 1000 {
			t.Fatalf("%d tags are no large repository", len(all))
		}
		for _, size := range []int{700, 1000, 50, -1} {
			got := pagesOfTags(t, repo, size)
			if !slices.Equal(got, all) {
				t.Fatalf("round %d, pages of %d: %d tags, want %d", round, size, len(got), len(all))
			}
		}
		if _, kept := repo.reg.tagNames.get("a"); !kept {
			t.Fatal("nothing is remembered of a large repository")
		}
		change([]int{5, 600, 5}[round%3])
		var gone storage.Stage
		for i, name := range want() {
			if i%(100+random.IntN(50)) == 0 || round == 2 && i%2 == 0 {
				gone = append(gone, storage.Change{Key: layout.TagCurrent("a", oci.Tag(name)), Delete: true},
					storage.Change{Key: layout.TagIndex("a", oci.Tag(name), sum("x")), Delete: true})
				delete(tags, name)
			}
		}
		check(t, other.Apply(context.Background(), nil, gone))
	}
}

// A tag whose deletion was interrupted before its history was gone is left out once somebody
// has asked for it.
func TestRemoteTags_LinkAloneIsGone_LeftOutOnceAskedFor(t *testing.T) {
	p := hostile.New(hostile.Options{}).Process()
	defer p.Close()
	repo := newRegistry(p, Options{}).Repository("a")
	manyRemoteTags(t, p, 1200)
	for range 2 {
		if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 1200 {
			t.Fatalf("%d tags are listed, %v", len(tags), err)
		}
	}
	removeObject(t, p, layout.TagCurrent("a", "tag0900"))
	_, err := repo.Manifest(t.Context(), tagged("tag0900"))
	wantCode(t, err, oci.CodeManifestUnknown)
	if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 1199 {
		t.Errorf("%d tags are listed, %v, want 1199", len(tags), err)
	}
}

func manyRemoteTags(t *testing.T, s storage.Store, n int) {
	t.Helper()
	stage := storage.Stage{{Key: layout.RevisionLink("a", sum("x")), Content: layout.Link(sum("x"))}}
	for i := range n {
		tag := oci.Tag(fmt.Sprintf("tag%04d", i))
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(sum("x"))},
			storage.Change{Key: layout.TagIndex("a", tag, sum("x")), Content: layout.Link(sum("x"))})
	}
	check(t, s.Apply(context.Background(), nil, stage))
}

// No tag is looked at by itself, and what was listed once is listed by its names alone.
func TestRemoteTags_Requests(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	repo := newRegistry(p, Options{}).Repository("a")
	const tags, size = 3000, 700
	manyRemoteTags(t, p, tags)
	var lists, looks atomic.Int64
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		switch r.Op {
		case "LIST":
			lists.Add(1)
		case "HEAD", "GET":
			looks.Add(1)
		}
		return hostile.None
	})
	walk := func() (int64, int64) {
		lists.Store(0)
		looks.Store(0)
		for last, more := "", true; more; {
			_, next, err := repo.Tags(t.Context(), size, last)
			check(t, err)
			last, more = next.Next, next.Next != ""
		}
		return lists.Load(), looks.Load()
	}
	n, looked := walk()
	t.Logf("first: %d listings, %d looks", n, looked)
	if looked > 0 {
		t.Errorf("%d tags are looked at", looked)
	}
	again, looked := walk()
	t.Logf("again: %d listings, %d looks", again, looked)
	if again >= n || looked > 0 {
		t.Errorf("%d listings and %d looks for what was listed before by %d", again, looked, n)
	}
}

// Names that another process has added between those that were listed before come in whole pages.
func TestRemoteTags_ManyNewNames_FewRequests(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p, other := bucket.Process(), bucket.Process()
	defer p.Close()
	defer other.Close()
	repo := newRegistry(p, Options{}).Repository("a")
	manyRemoteTags(t, p, 1500)
	tags, _, err := repo.Tags(t.Context(), -1, "")
	check(t, err)
	var stage storage.Stage
	for i := range 1000 {
		stage = append(stage, storage.Change{Key: layout.TagCurrent("a", oci.Tag(fmt.Sprintf("tag0000-%04d", i))), Content: layout.Link(sum("x"))})
	}
	check(t, other.Apply(t.Context(), nil, stage))
	var lists atomic.Int64
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" {
			lists.Add(1)
		}
		return hostile.None
	})
	now, _, err := repo.Tags(t.Context(), -1, "")
	check(t, err)
	if len(now) != len(tags)+1000 || lists.Load() > 200 {
		t.Errorf("%d tags by %d listings, want %d by no more than 200", len(now), lists.Load(), len(tags)+1000)
	}
}

// The bytes of a blob are looked at once a second, its link each time.
func TestRemoteBlob_BytesAreLookedAtOnceASecond(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	now := time.Now()
	repo := newRegistry(p, Options{Now: func() time.Time { return now }, Grace: time.Hour, RenewAfter: time.Hour}).Repository("a")
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
			bucket := hostile.New(hostile.Options{})
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
				put(t, repo, tagged("t"), m)
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
