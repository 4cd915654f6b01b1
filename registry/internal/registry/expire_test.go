package registry

import (
	"context"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/driver/filesystem"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

func TestExpireTag(t *testing.T) {
	for name := range drivers {
		t.Run(name, func(t *testing.T) {
			ctx, r := context.Background(), immutableRegistry(t, name)
			repo := r.Repository("prod/app")
			d := pushImage(t, repo, "old", "a")
			pushImage(t, repo, "v1", "a")
			pushImage(t, repo, "moved", "a")
			since := linkTime(t, repo, "old")

			for tag, expect := range map[oci.Tag]struct {
				d     oci.Digest
				since time.Time
			}{
				"old":   {d, since.Add(-time.Second)},           // pushed again since
				"moved": {sum("x"), linkTime(t, repo, "moved")}, // points elsewhere by now
				"v1":    {d, linkTime(t, repo, "v1")},           // immutable
				"none":  {d, since},
			} {
				if removed, err := repo.ExpireTag(ctx, tag, expect.d, expect.since); removed || err != nil {
					t.Errorf("%s: removed %v, %v", tag, removed, err)
				}
			}
			if removed, err := repo.ExpireTag(ctx, "old", d, since); !removed || err != nil {
				t.Fatal(removed, err)
			}
			if tags, _, err := repo.Tags(ctx, -1, ""); err != nil || len(tags) != 2 || tags[0] != "moved" || tags[1] != "v1" {
				t.Errorf("left are %v, %v", tags, err)
			}
			if _, err := r.driver.Stat(ctx, layout.Tag("prod/app", "old")); !absent(err) {
				t.Errorf("the directory of the tag: %v", err)
			}
			check(t, repo.FinishExpiry(ctx))
			for e, err := range r.driver.List(ctx, layout.Expiring, "") {
				if !absent(err) {
					t.Errorf("%s was left behind, %v", e.Name, err)
				}
			}
			pushImage(t, repo, "old", "b")
		})
	}
}

// A process that dies with a link in its hands leaves it to the next one, which
// overwrites nothing that was pushed since.
func TestRecoverTags(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("app/sub")
		lost, newer := pushImage(t, repo, "lost", "a"), oci.Digest("")
		pushImage(t, repo, "pushed", "a")
		for _, tag := range []oci.Tag{"lost", "pushed"} {
			current := layout.TagCurrent("app/sub", tag)
			check(t, r.driver.SetAside(ctx, current, layout.ExpiringTags("app/sub")+"/"+string(tag)))
		}
		newer = pushImage(t, repo, "pushed", "b")
		check(t, r.RecoverTags(ctx)) // the process may live
		_, err := repo.Manifest(ctx, tagged("lost"))
		wantCode(t, err, oci.CodeManifestUnknown)
		r = New(Options{Driver: aged{r.driver}})
		check(t, r.RecoverTags(ctx))
		for tag, want := range map[string]oci.Digest{"lost": lost, "pushed": newer} {
			if m, err := repo.Manifest(ctx, tagged(tag)); err != nil || m.Digest != want {
				t.Errorf("%s: %v, %v", tag, m, err)
			}
		}
		check(t, r.RecoverTags(ctx))
		for e, err := range r.driver.List(ctx, layout.Expiring, "") {
			if !absent(err) {
				t.Errorf("%s was left behind, %v", e.Name, err)
			}
		}
	})
}

// A push that another process takes while a tag is taken away is never undone.
func TestExpireNeverUndoesAPush(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	open := func() *Registry {
		d, err := filesystem.Open(root)
		check(t, err)
		t.Cleanup(func() { d.Close() })
		return New(Options{Driver: d})
	}
	ours, theirs := open().Repository("app"), open().Repository("app")
	old, other := simpleImage(t, theirs, "old"), simpleImage(t, theirs, "new")
	put(t, theirs, tagged("other"), other)
	removed := 0
	for round := range 100 {
		start := time.Now()
		d := put(t, theirs, tagged("t"), old).Descriptor.Digest
		takes := time.Since(start)
		since := linkTime(t, theirs, "t")
		var group sync.WaitGroup
		group.Go(func() {
			time.Sleep(takes * time.Duration(round%20) / 20)
			gone, err := ours.ExpireTag(ctx, "t", d, since)
			if err != nil {
				t.Error(err)
			}
			if gone {
				removed++
			}
		})
		group.Go(func() {
			if _, err := theirs.PutManifest(ctx, tagged("t"), "", other.bytes(), nil); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		for _, repo := range []Repository{ours, theirs} {
			if m, err := repo.Manifest(ctx, tagged("t")); err != nil || m.Digest != sum(string(other.bytes())) {
				t.Fatalf("round %d: the pushed tag is %v, %v", round, m, err)
			}
		}
	}
	t.Logf("the old tag was removed in %d rounds", removed)
}

func linkTime(t *testing.T, repo Repository, tag oci.Tag) time.Time {
	t.Helper()
	info, err := repo.reg.driver.Stat(context.Background(), layout.TagCurrent(repo.name, tag))
	check(t, err)
	return info.Changed
}
