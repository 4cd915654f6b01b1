package registry

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

// undoing runs the test on each store there is, where deletions can be undone for a day.
func undoing(t *testing.T, test func(t *testing.T, r *Registry)) {
	withKeep(t, 24*time.Hour, test)
}

// withKeep runs the test where deletions can be undone that long. The minutes that a collection of
// a bucket takes pass at once.
func withKeep(t *testing.T, keep time.Duration, test func(t *testing.T, r *Registry)) {
	for name, open := range stores {
		run := func(t *testing.T) { test(t, newRegistry(open(t), Options{DeleteEnabled: true, KeepDeleted: keep})) }
		t.Run(name, func(t *testing.T) {
			if name == "hostile" {
				synctest.Test(t, run)
				return
			}
			t.Parallel()
			run(t)
		})
	}
}

// collectAll collects whatever nothing needs, as if no registry were serving.
func collectAll(t *testing.T, r *Registry, purge bool) collect.Report {
	t.Helper()
	if r.store.Remote {
		time.Sleep(5 * time.Minute) // all that was pushed is old
	}
	report, err := collect.Run(t.Context(), collect.Options{Store: r.opts.Store, DeleteUntagged: true, PurgeDeleted: purge, Remote: r.store.Remote})
	check(t, err)
	return report
}

func TestRestoreTag(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a").By("ann")
		d := pushImage(t, repo, "v1", "one")
		check(t, deleteTag(t.Context(), repo, "v1"))
		deletion := wantDeletions(t, repo, 1)[0]
		if deletion.By != "ann" || !maps.Equal(deletion.Tags, map[oci.Tag]oci.Digest{"v1": d}) || !deletion.Until.Equal(deletion.At.Add(24*time.Hour)) {
			t.Errorf("the deletion is %+v", deletion)
		}
		collectAll(t, r, false)
		restored, err := repo.Restore(t.Context(), Selection{Tag: "v1"})
		check(t, err)
		if restored.Tags["v1"] != d {
			t.Errorf("restored %+v", restored)
		}
		wantWholeTags(t, repo, []string{"v1"})
		wantImages(t, "restored", repo)
		wantDeletions(t, repo, 0)
		_, err = repo.Restore(t.Context(), Selection{Tag: "v1"})
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}

func TestRestoreManifest(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		d := pushImage(t, repo, "v1", "one")
		pushImage(t, repo, "other", "two")
		put(t, repo, tagged("latest"), simpleImage(t, repo, "one"))
		_, err := repo.DeleteManifest(t.Context(), d)
		check(t, err)
		if report := collectAll(t, r, false); report.Kept.Restorable.Blobs != 3 || report.Manifests.Found != 1 {
			t.Errorf("collected with %+v", report)
		}
		pushImage(t, repo, "latest", "three")
		restored, err := repo.Restore(t.Context(), Selection{Digest: d})
		check(t, err)
		if len(restored.Manifests) != 1 || restored.Tags["v1"] != d || restored.Left["latest"] == "" {
			t.Errorf("restored %+v", restored)
		}
		wantWholeTags(t, repo, []string{"latest", "other", "v1"})
		wantImages(t, "restored", repo)
		if rest := wantDeletions(t, repo, 1)[0]; len(rest.Manifests) > 0 || !maps.Equal(rest.Tags, map[oci.Tag]oci.Digest{"latest": d}) {
			t.Errorf("what is left of the deletion is %+v", rest)
		}
		_, err = repo.Restore(t.Context(), Selection{Tag: "latest"})
		wantCode(t, err, oci.CodeDenied)
		_, err = repo.Restore(t.Context(), Selection{Tag: "latest", Digest: d})
		check(t, err)
		if at, _ := repo.TagTarget(t.Context(), "latest"); at != d {
			t.Errorf("latest points at %s", at)
		}
	})
}

// An index comes back with the images in it, and with what refers to it.
func TestRestoreRepository(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a/b")
		child := put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(simpleImage(t, repo, "child").bytes())}, simpleImage(t, repo, "child")).Descriptor
		index := put(t, repo, tagged("multi"), image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{child}}).Descriptor
		signature := simpleImage(t, repo, "signature")
		signature.Subject = &index
		signed := oci.SHA256.FromBytes(signature.bytes())
		put(t, repo, oci.Reference{Digest: signed}, signature)
		pushImage(t, repo, "v1", "one")
		check(t, repo.Delete(t.Context()))
		wantCode(t, repo.Delete(t.Context()), oci.CodeNameUnknown)
		collectAll(t, r, false)
		if d := wantDeletions(t, repo, 1)[0]; !d.Repository || len(d.Manifests) != 4 || len(d.Tags) != 2 {
			t.Errorf("the deletion is %+v", d)
		}
		restored, err := repo.Restore(t.Context(), Selection{})
		check(t, err)
		if len(restored.Manifests) != 4 || len(restored.Tags) != 2 {
			t.Errorf("restored %+v", restored)
		}
		wantWholeTags(t, repo, []string{"multi", "v1"})
		wantImages(t, "restored", repo)
		list, _, err := repo.Referrers(t.Context(), index.Digest, "", "", 10)
		check(t, err)
		if len(list) != 1 || list[0].Digest != signed {
			t.Errorf("referrers are %v", list)
		}
		collectAll(t, r, false)
		wantImages(t, "collected", repo)
	})
}

// A manifest that can't come back keeps no other from it, and stays in the record with its tag.
func TestRestoreRepository_BrokenManifests(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		lost, rest := map[oci.Tag]oci.Digest{}, map[oci.Tag]oci.Digest{}
		for i := range 6 { // some of each kind are the first by digest
			tag := fmt.Sprint("v", i)
			d := pushImage(t, repo, tag, tag)
			rest[oci.Tag(tag)] = d
			if i%2 == 0 {
				lost[oci.Tag(tag)] = d
				delete(rest, oci.Tag(tag))
				check(t, repo.DeleteBlob(t.Context(), sum("layer "+tag)))
			}
		}
		check(t, repo.Delete(t.Context()))
		restored, err := repo.Restore(t.Context(), Selection{})
		check(t, err)
		if !maps.Equal(restored.Tags, rest) || len(restored.Manifests) != len(rest) || len(restored.Failed) != len(lost) {
			t.Errorf("restored %+v, want %v, and failures of %v", restored, rest, lost)
		}
		for tag, d := range lost {
			if want := "blob unknown to registry: " + string(sum("layer "+string(tag))); restored.Failed[d] != want {
				t.Errorf("%s failed with %q, want %q", tag, restored.Failed[d], want)
			}
		}
		if d := wantDeletions(t, repo, 1)[0]; !maps.Equal(d.Tags, lost) || len(d.Manifests) != len(lost) {
			t.Errorf("what is left of the deletion is %+v", d)
		}
		_, err = repo.Restore(t.Context(), Selection{})
		wantCode(t, err, oci.CodeManifestBlobUnknown)
	})
}

// Indexes that lie deep in each other are not in memory together when they come back.
func TestRestore_DeepIndexes(t *testing.T) {
	const depth, size = 12, 1 << 20
	store := &hookedtest.Store{Store: openFiles(t, t.TempDir())}
	r := newRegistry(store, Options{DeleteEnabled: true, KeepDeleted: time.Hour, ManifestCache: 1})
	repo := r.Repository("a")
	last := simpleImage(t, repo, "x")
	for range depth {
		inner := put(t, repo, oci.Reference{Digest: oci.SHA256.FromBytes(last.bytes())}, last).Descriptor
		last = image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{inner}, Annotations: map[string]string{"x": strings.Repeat("x", size)}}
	}
	put(t, repo, tagged("v1"), last)
	check(t, repo.Delete(t.Context()))
	before, most := heap(), uint64(0)
	store.OnApply = func([]storage.Stage) error {
		most = max(most, heap())
		return nil
	}
	restored, err := repo.Restore(t.Context(), Selection{Tag: "v1"})
	check(t, err)
	if len(restored.Manifests) != depth+1 || most > before+depth*size/2 {
		t.Errorf("%d manifests; %d bytes of memory, %d before", len(restored.Manifests), most, before)
	}
}

// A restore that stops at any of its steps loses nothing of the rest of the deletion.
func TestInterruptedRestore(t *testing.T) {
	for at, more := 0, true; more; at++ {
		s := &stopping{both: memory.New(), at: at}
		repo := newRegistry(s, Options{DeleteEnabled: true, KeepDeleted: time.Hour}).Repository("a")
		d := pushImage(t, repo, "v1", "one")
		pushImage(t, repo, "latest", "one")
		_, err := repo.DeleteManifest(t.Context(), d)
		check(t, err)
		pushImage(t, repo, "latest", "two")
		s.armed = true
		_, err = repo.Restore(t.Context(), Selection{Digest: d})
		s.armed = false
		rest, err2 := repo.Deletions(t.Context(), 0)
		check(t, err2)
		if len(rest) == 0 || rest[0].Tags["latest"] != d {
			t.Errorf("step %d: left is %+v", at, rest)
		}
		if more = s.died; !more && (err != nil || len(rest) != 1 || len(rest[0].Manifests) > 0) {
			t.Errorf("restored: %v; left is %+v", err, rest)
		}
	}
}

// stopping is a store that makes no change any more from one on.
type stopping struct {
	both
	armed, died bool
	step, at    int
}

func (s *stopping) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	for _, stage := range stages {
		for i := range stage {
			if s.armed {
				if s.step == s.at {
					s.died = true
					return storage.ErrUnavailable
				}
				s.step++
			}
			if err := s.both.Apply(ctx, a, stage[i:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A deletion and its undoing, and collections between any two of their steps: what was deleted
// can always be restored, and is whole then. A purge at the same time may take it away, but never
// a part.
func TestCollectionBetweenTwoStepsOfAnUndo(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(Repository, oci.Digest) error{
		"tag":        func(r Repository, _ oci.Digest) error { return deleteTag(ctx, r, "v1") },
		"manifest":   func(r Repository, d oci.Digest) error { _, err := r.DeleteManifest(ctx, d); return err },
		"repository": func(r Repository, _ oci.Digest) error { return r.Delete(ctx) },
	} {
		for _, purge := range []bool{false, true} {
			for _, stopped := range []string{"writer", "collector"} {
				t.Run(fmt.Sprint(name, ", purge ", purge, ", stopping the ", stopped), func(t *testing.T) {
					t.Parallel()
					for at, more := 0, true; more; at++ {
						m := memory.New()
						m.SetClock(func() time.Time { return time.Now().Add(-2 * time.Hour) })
						d := pushImage(t, newRegistry(m, Options{}).Repository("a"), "v1", "x")
						m.SetClock(time.Now)
						s := &stepping{both: m, at: at}
						by := map[string]both{"writer": m, "collector": m}
						by[stopped] = s
						repo := newRegistry(by["writer"], Options{DeleteEnabled: true, KeepDeleted: time.Hour}).Repository("a")
						leave, err := m.Lock(ctx, storage.LockServers, true)
						check(t, err)
						write := func() error {
							if err := remove(repo, d); err != nil {
								return err
							}
							_, err := repo.Restore(ctx, Selection{Tag: "v1"})
							return err
						}
						run := func() error {
							_, err := collect.Run(ctx, collect.Options{Store: by["collector"], KeepAge: true, DeleteUntagged: true, PurgeDeleted: purge})
							return err
						}
						var written, collected error
						if stopped == "collector" {
							collected, written, more = s.interleave(run, write)
						} else {
							written, collected, more = s.interleave(write, run)
						}
						check(t, collected)
						gone := unknownTo(written, oci.CodeManifestUnknown) || unknownTo(written, oci.CodeManifestBlobUnknown)
						if written != nil && (!purge || !gone) {
							t.Fatalf("step %d: %v", at, written)
						}
						for range 2 {
							wantImages(t, fmt.Sprint("step ", at), newRegistry(m, Options{}).Repository("a"))
							check(t, run())
						}
						leave()
					}
				})
			}
		}
	}
}

// A person without rights to a blob doesn't get it by restoring what was never there.
func TestRestoreOnlyWhatWasDeleted(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		secret := pushImage(t, r.Repository("secret"), "v1", "x")
		pushImage(t, r.Repository("a"), "v1", "y")
		_, err := r.Repository("a").Restore(t.Context(), Selection{Tag: "v1", Digest: secret})
		wantCode(t, err, oci.CodeManifestUnknown)
		_, err = r.Repository("a").Restore(t.Context(), Selection{Deletion: "../../secret"})
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}

// While a collection deletes untagged manifests: one that a client deletes can be restored, and one that gets a tag again, by a push
// or by restore, keeps its referrers.
func TestCollectionBesideUndo(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, repo Repository, old oci.Digest){
		"delete": func(t *testing.T, repo Repository, old oci.Digest) {
			_, err := repo.DeleteManifest(t.Context(), old)
			check(t, err)
		},
		"delete all": func(t *testing.T, repo Repository, _ oci.Digest) { check(t, repo.Delete(t.Context())) },
		"push": func(t *testing.T, repo Repository, old oci.Digest) {
			m, err := repo.Manifest(t.Context(), oci.Reference{Digest: old})
			check(t, err)
			_, err = repo.PutManifest(t.Context(), tagged("again"), m.MediaType, m.Bytes, nil)
			check(t, err)
		},
		"restore": func(t *testing.T, repo Repository, old oci.Digest) {
			_, err := repo.Restore(t.Context(), Selection{Tag: "again", Digest: old})
			check(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory.New()
			unlock, err := m.Lock(t.Context(), storage.LockServers, true)
			check(t, err)
			defer unlock()
			repo := newRegistry(m, Options{DeleteEnabled: true, KeepDeleted: 24 * time.Hour}).Repository("a")
			old := pushImage(t, repo, "v1", "one")
			signature := refer(t, repo, old, "signature", nil)
			pushImage(t, repo, "v1", "two")
			called := false
			_, err = collect.Run(t.Context(), collect.Options{Store: m, DeleteUntagged: true, Tell: func(e collect.Event) {
				if e.Kind == collect.Manifest && !called { // the repository was read
					called = true
					write(t, repo, old)
				}
			}})
			check(t, err)
			deleted := strings.HasPrefix(name, "delete")
			if deleted {
				_, err := repo.Restore(t.Context(), Selection{Digest: old})
				check(t, err)
			}
			wantImages(t, "after the collection", repo)
			if all := listReferrers(t, repo, old, ""); !deleted && (len(all) != 1 || all[0].Digest != signature) {
				t.Errorf("the referrers are %v", all)
			}
		})
	}
}
