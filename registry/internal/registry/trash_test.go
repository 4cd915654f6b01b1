package registry

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

func wantDeletions(t *testing.T, repo Repository, n int) []layout.Deletion {
	t.Helper()
	all, err := repo.Deletions(t.Context(), 0)
	check(t, err)
	if len(all) != n {
		t.Fatalf("%d deletions can be undone, want %d: %+v", len(all), n, all)
	}
	return all
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestPurgeDeleted(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		d := pushImage(t, repo, "v1", "one")
		check(t, repo.Delete(t.Context()))
		report := collectAll(t, r, true)
		if report.Blobs.Freed != 3 || report.Kept.Restorable.Blobs != 0 {
			t.Errorf("collected with %+v", report)
		}
		wantDeletions(t, repo, 0)
		_, err := repo.Restore(t.Context(), Selection{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
		keys, err := r.store.Keys(t.Context(), layout.Trash)
		check(t, err)
		if len(keys) > 0 {
			t.Errorf("left are %q", keys)
		}
	})
}

// A deletion whose bytes are within the grace period can still be undone.
func TestPurgeDeleted_Recent(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		d := pushImage(t, repo, "v1", "one")
		check(t, repo.Delete(t.Context()))
		purge := func(age time.Duration) collect.Report {
			report, err := collect.Run(t.Context(), collect.Options{Store: r.opts.Store, Age: age, KeepAge: true, DeleteUntagged: true, PurgeDeleted: true, Remote: r.store.Remote})
			check(t, err)
			return report
		}
		if report := purge(24 * time.Hour); report.Blobs.Freed != 0 || report.Kept.Restorable.Blobs != 3 {
			t.Errorf("collected with %+v", report)
		}
		wantDeletions(t, repo, 1)
		_, err := repo.Restore(t.Context(), Selection{Digest: d})
		check(t, err)
		wantImages(t, "restored", repo)
	})
}

// When its time is over a deletion can't be undone, and a collection frees the bytes.
func TestDeletionExpires(t *testing.T) {
	s := memory.New()
	past := func() time.Time { return time.Now().Add(-2 * time.Hour) }
	repo := newRegistry(s, Options{DeleteEnabled: true, KeepDeleted: time.Hour, Now: past}).Repository("a")
	pushImage(t, repo, "v1", "one")
	check(t, deleteTag(t.Context(), repo, "v1"))
	wantDeletions(t, repo, 1)
	r := newRegistry(s, Options{})
	wantDeletions(t, r.Repository("a"), 0)
	_, err := r.Repository("a").Restore(t.Context(), Selection{Tag: "v1"})
	wantCode(t, err, oci.CodeManifestUnknown)
	if report := collectAll(t, r, false); report.Blobs.Freed != 3 {
		t.Errorf("collected with %+v", report)
	}
	wantDeletions(t, repo, 0)
}

// Without a time to keep, nothing is recorded.
func TestNothingIsRecorded(t *testing.T) {
	withKeep(t, 0, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "v1", "one")
		check(t, repo.Delete(t.Context()))
		wantDeletions(t, repo, 0)
		if report := collectAll(t, r, false); report.Blobs.Freed != 3 {
			t.Errorf("collected with %+v", report)
		}
	})
}

// A deletion that stops at any of its steps leaves each tag where it was or in the trash, and
// restoring completes what can be restored.
func TestInterruptedDeletion(t *testing.T) {
	for name, remove := range map[string]func(context.Context, Repository, oci.Digest) error{
		"tag": func(ctx context.Context, r Repository, _ oci.Digest) error { return deleteTag(ctx, r, "v1") },
		"manifest": func(ctx context.Context, r Repository, d oci.Digest) error {
			_, err := r.DeleteManifest(ctx, d)
			return err
		},
		"repository": func(ctx context.Context, r Repository, _ oci.Digest) error { return r.Delete(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			for at, more := 0, true; more; at++ {
				s := &stopping{both: memory.New(), at: at}
				r := newRegistry(s, Options{DeleteEnabled: true, KeepDeleted: time.Hour})
				repo := r.Repository("a")
				d := pushImage(t, repo, "v1", "one")
				s.armed = true
				err := remove(t.Context(), repo, d)
				s.armed = false
				if more = s.died; more && err == nil {
					t.Fatalf("step %d: the deletion reports no error", at)
				}
				collectAll(t, r, false)
				if now, ok := repo.TagTarget(t.Context(), "v1"); ok && now == d {
					wantImages(t, fmt.Sprint("step ", at), repo)
					continue
				}
				_, err = repo.Restore(t.Context(), Selection{Tag: "v1"})
				check(t, err)
				wantWholeTags(t, repo, []string{"v1"})
				wantImages(t, fmt.Sprint("restored after step ", at), repo)
			}
		})
	}
}

// Requests that only look read a bounded number of records, the latest.
func TestDeletions_Limit(t *testing.T) {
	now := time.Now()
	repo := newRegistry(memory.New(), Options{DeleteEnabled: true, KeepDeleted: time.Hour, Now: func() time.Time { return now }}).Repository("a")
	for _, tag := range []string{"v1", "v2", "v3"} {
		pushImage(t, repo, tag, tag)
		_, err := repo.DeleteTag(t.Context(), oci.Tag(tag))
		check(t, err)
		now = now.Add(time.Second)
	}
	all, err := repo.Deletions(t.Context(), 2)
	check(t, err)
	if len(all) != 2 || all[0].Tags["v3"] == "" || all[1].Tags["v2"] == "" {
		t.Errorf("the last two deletions are %+v", all)
	}
	pushImage(t, repo, "v3", "v3")
	all, err = repo.Deletions(t.Context(), 2)
	check(t, err)
	if len(all) != 2 || all[0].Tags["v2"] == "" || all[1].Tags["v1"] == "" {
		t.Errorf("of what is not in place again, the last two deletions are %+v", all)
	}
}

// Large records of deletions are not in memory together, and the history of a tag reads none.
func TestLargeDeletions(t *testing.T) {
	const records, names = 15, 20_000
	store := &hookedtest.Store{Store: openFiles(t, t.TempDir())}
	repo := newRegistry(store, Options{DeleteEnabled: true, KeepDeleted: time.Hour}).Repository("a")
	one := pushImage(t, repo, "v1", "one")
	pushImage(t, repo, "v1", "two")
	_, err := repo.DeleteManifest(t.Context(), one)
	check(t, err)
	large := layout.Deletion{Tags: map[oci.Tag]oci.Digest{}}
	for i := range names {
		large.Tags[oci.Tag(fmt.Sprint("t", i))] = sum(fmt.Sprint(i))
	}
	size := heap()
	for i := range records { // the latest
		at := time.Now().Add(time.Duration(i+1) * time.Second)
		large.ID = layout.DeletionID(at, at.Add(time.Hour))
		putObject(t, store, large.Key("a"), string(large.Encode()))
	}
	decoded, err := layout.ParseDeletion(large.ID, large.Encode())
	check(t, err)
	size = heap() - size // of one record
	runtime.KeepAlive(decoded)
	runtime.KeepAlive(large)
	before, most, reads := heap(), uint64(0), 0
	store.OnRead = func(_ context.Context, op hookedtest.Op, key string) error {
		if op == hookedtest.Open && strings.HasPrefix(key, layout.Trash) {
			most, reads = max(most, heap()), reads+1
		}
		return nil
	}
	history, err := repo.History(t.Context(), "v1")
	check(t, err)
	if len(history) != 2 || !history[1].Available || reads != 0 {
		t.Errorf("history %+v; %d reads of records", history, reads)
	}
	if _, err = repo.Restore(t.Context(), Selection{Digest: one}); err != nil || reads != records+1 || most > before+4*size {
		t.Errorf("restore: %v; %d reads, %d bytes of memory, %d before; a record has %d", err, reads, most, before, size)
	}
	list, err := repo.Deletions(t.Context(), MaxDeletions)
	if check(t, err); len(list) != maxDeletedNames/names {
		t.Errorf("%d large deletions are listed", len(list))
	}
}

// A repository comes back as it was when its deletion began; what was pushed meanwhile can be restored, too.
func TestRepositoryPushedDuringItsDeletion(t *testing.T) {
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			store := &meddled{both: open(t), deleted: layout.TagCurrent("a", "v1")}
			repo := newRegistry(store, Options{DeleteEnabled: true, KeepDeleted: time.Hour}).Repository("a")
			d := pushImage(t, repo, "v1", "one")
			time.Sleep(2 * versionPause)
			var late oci.Digest
			store.after = func() {
				store.after = nil
				image := simpleImage(t, repo, "late")
				late = oci.SHA256.FromBytes(image.bytes())
				put(t, repo, oci.Reference{Digest: late}, image)
			}
			check(t, repo.Delete(t.Context()))
			all := wantDeletions(t, repo, 2)
			if all[0].Repository || !slices.Equal(all[0].Manifests, []oci.Digest{late}) || !all[1].Repository || !slices.Equal(all[1].Manifests, []oci.Digest{d}) {
				t.Errorf("the deletions are %+v", all)
			}
			_, err := repo.Restore(t.Context(), Selection{})
			check(t, err)
			wantWholeTags(t, repo, []string{"v1"})
			_, err = repo.Restore(t.Context(), Selection{Deletion: all[0].ID})
			check(t, err)
			wantDeletions(t, repo, 0)
			wantImages(t, "restored", repo)
		})
	}
}
