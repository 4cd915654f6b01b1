package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// Pages of tags of a remote store hold what a listing of all tags has, in its order, also
// where some names begin with others and histories are long.
func TestRemoteTags_PagesAreThoseOfTheSortedNames(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for round := range 20 {
		p := hostile.New(hostile.Options{}).Process()
		repo := newRegistry(p, Options{}).Repository("a")
		var names []string
		var stage storage.Stage
		for range 1 + random.IntN(60) {
			name := []string{"1", "latest", "v2"}[random.IntN(3)]
			for range random.IntN(4) {
				name += []string{".1", "-a", "0", "_b", ".12", "-"}[random.IntN(6)]
			}
			if tag, err := oci.ParseTag(name); err != nil || slices.Contains(names, name) {
				continue
			} else if d := sum(name); random.IntN(5) == 0 { // not a tag yet
				stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag, d), Content: layout.Link(d)})
			} else {
				names = append(names, name)
				stage = append(stage, storage.Change{Key: layout.TagCurrent("a", tag), Content: layout.Link(d)})
			}
		}
		if round == 0 {
			for i := range longHistory + 10 {
				stage = append(stage, storage.Change{Key: layout.TagIndex("a", "latest", sum(fmt.Sprint(i))), Content: layout.Link(sum(fmt.Sprint(i)))})
			}
		}
		stage = append(stage, storage.Change{Key: layout.RevisionLink("a", sum("x")), Content: layout.Link(sum("x"))})
		check(t, p.Apply(context.Background(), nil, stage))
		slices.Sort(names)
		for _, size := range []int{-1, 1, 2, 7} {
			got := pagesOfTags(t, repo, size)
			if !slices.Equal(got, names) {
				t.Errorf("round %d, pages of %d: %q, want %q", round, size, got, names)
			}
		}
		check(t, p.Close())
	}
}

// A deletion among many tags reads the listing and no link, where that has hashes.
func TestRemoteDeletion_ReadsNoOtherTags(t *testing.T) {
	for name, tt := range map[string]struct {
		options hostile.Options
		most    int
	}{
		"hashes":    {hostile.Options{}, 4},
		"no hashes": {hostile.Options{ContentVersions: true}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := hostile.New(tt.options)
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

// Deletions that come while a listing is under way share the next one, whoever of them hangs up,
// and each deletes its own tag.
func TestRemoteDeletions_AtTheSameTime_ShareAListing(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	repo := newRegistry(p, Options{DeleteEnabled: true}).Repository("a")
	digests := make([]oci.Digest, 9)
	tag := func(i int) string { return fmt.Sprint("v", i) }
	for i := range digests {
		digests[i] = pushImage(t, repo, tag(i), tag(i))
	}
	lists, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" && strings.HasSuffix(r.Key, "_manifests/tags/") {
			first.Do(func() {
				close(lists)
				<-goOn
			})
		}
		return hostile.None
	})
	var all sync.WaitGroup
	remove := func(i int) {
		all.Go(func() {
			if removed, err := repo.DeleteManifest(t.Context(), digests[i]); err != nil || !slices.Equal(removed, []oci.Tag{oci.Tag(tag(i))}) {
				t.Errorf("deletion of %s: removed %q, %v", tag(i), removed, err)
			}
		})
	}
	await := func(waiting int) {
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			repo.reg.looking.Lock()
			l := repo.reg.looks["a"]
			ok := !l.begun && len(l.wanted) == waiting
			repo.reg.looking.Unlock()
			if ok {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d deletions do not wait for one listing", waiting)
			}
		}
	}
	remove(0)
	<-lists
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := repo.DeleteManifest(ctx, digests[1])
		gone <- err
	}()
	await(1)
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who hung up got %v", err)
	}
	for i := 2; i < len(digests); i++ {
		remove(i)
	}
	await(len(digests) - 1)
	close(goOn)
	all.Wait()
	if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || !slices.Equal(tags, []string{tag(1)}) {
		t.Errorf("%q are left, %v, want %s", tags, err, tag(1))
	}
}

// countReads counts reads of objects in the tree.
func countReads(b *hostile.Bucket) (reads func() int) {
	var n atomic.Int64
	b.SetFault(func(r hostile.Request) hostile.Fault {
		if (r.Op == "GET" || r.Op == "HEAD") && !strings.Contains(r.Key, "/.slipway/") {
			n.Add(1)
		}
		return hostile.None
	})
	return func() int { return int(n.Load()) }
}

// pagesOfTags reads all pages of that size.
func pagesOfTags(t *testing.T, repo Repository, size int) (names []string) {
	t.Helper()
	for last, more := "", true; more; {
		page, next, err := repo.Tags(t.Context(), size, last)
		check(t, err)
		names, more = append(names, page...), next.Next != ""
		last = next.Next
	}
	return names
}
