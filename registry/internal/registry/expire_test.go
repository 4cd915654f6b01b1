package registry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/drivertest"
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
// puts it back at once, and overwrites nothing that was pushed since.
func TestRecoverTags(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("app/sub")
		lost, newer := pushImage(t, repo, "lost", "a"), oci.Digest("")
		pushImage(t, repo, "pushed", "a")
		pushImage(t, repo, "v1.tmp", "a") // listings leave out files of such names
		for _, tag := range []oci.Tag{"lost", "pushed", "v1.tmp"} {
			check(t, r.driver.SetAside(ctx, layout.TagCurrent("app/sub", tag), layout.ExpiringTag("app/sub", tag)))
		}
		newer = pushImage(t, repo, "pushed", "b")
		check(t, r.RecoverTags(ctx))
		for tag, want := range map[string]oci.Digest{"lost": lost, "pushed": newer, "v1.tmp": lost} {
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

// A tag that was pushed anew and deleted does not come back as it was when a
// process died that had its link in its hands.
func TestDeletedTagDoesNotComeBack(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		pushImage(t, repo, "kept", "k")
		deleteManifest := func(r *Registry, d oci.Digest) error {
			_, err := r.Repository("a").DeleteManifest(t.Context(), d)
			return err
		}
		for name, remove := range map[oci.Tag]func(oci.Digest) error{
			"one": func(oci.Digest) error { return repo.DeleteTag(t.Context(), "one") },
			"two": func(d oci.Digest) error { return deleteManifest(r, d) },
			"three": func(d oci.Digest) error {
				alone := New(Options{Driver: r.driver, DeleteEnabled: true})
				leave, err := alone.Serve(t.Context())
				check(t, err)
				defer leave()
				return deleteManifest(alone, d)
			},
		} {
			pushImage(t, repo, string(name), "x")
			check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", name), layout.ExpiringTag("a", name)))
			check(t, remove(pushImage(t, repo, string(name), string(name))))
			r.Recover(t.Context())
			wantWholeTags(t, repo, []string{"kept"})
		}
	})
}

// handed is a storage where something happens while somebody has the link of a
// tag in his hands.
type handed struct {
	driver.Driver
	meanwhile func()
}

func (h *handed) SetAside(ctx context.Context, path, aside string) error {
	err := h.Driver.SetAside(ctx, path, aside)
	if err == nil && strings.HasPrefix(aside, layout.Expiring) {
		h.meanwhile()
	}
	return err
}

// What somebody who lives has in his hands is left to him.
func TestRecoveryLeavesWhatIsInHands(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &handed{Driver: open(t)}
			repo, other := New(Options{Driver: store}).Repository("a"), New(Options{Driver: store.Driver})
			d := pushImage(t, repo, "one", "x")
			store.meanwhile = func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				defer cancel()
				if err := other.RecoverTags(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it did not wait: %v", err)
				}
				wantPlace(t, store, layout.TagCurrent("a", "one"), false)
			}
			removed, err := repo.ExpireTag(t.Context(), "one", d, linkTime(t, repo, "one"))
			if !removed || err != nil {
				t.Errorf("removed %v, %v", removed, err)
			}
			check(t, other.RecoverTags(t.Context()))
			wantPlace(t, store, layout.TagCurrent("a", "one"), false)
		})
	}
}

// A link that cannot be put back holds up no other, and is named.
func TestRecoverTagsGoesOn(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := New(Options{Driver: store}).Repository("a")
			for _, tag := range []string{"1", "2", "3"} {
				pushImage(t, repo, tag, "x")
				check(t, store.SetAside(t.Context(), layout.TagCurrent("a", oci.Tag(tag)), layout.ExpiringTags("a")+"/"+tag))
			}
			broken := &stuck{Driver: store, path: layout.TagCurrent("a", "2")}
			err := New(Options{Driver: broken}).RecoverTags(t.Context())
			if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), layout.ExpiringTags("a")+"/2") {
				t.Errorf("got %v", err)
			}
			for tag, back := range map[oci.Tag]bool{"1": true, "2": false, "3": true} {
				wantPlace(t, store, layout.TagCurrent("a", tag), back)
			}
			check(t, New(Options{Driver: store}).RecoverTags(t.Context()))
			wantWholeTags(t, repo, []string{"1", "2", "3"})
		})
	}
}

// stuck is a storage that cannot restore anything to a path.
type stuck struct {
	driver.Driver
	path string
}

func (s *stuck) Restore(ctx context.Context, aside, path string) error {
	if path == s.path {
		return errDisk
	}
	return s.Driver.Restore(ctx, aside, path)
}

// retaken is a storage where something happens just after a link is back.
type retaken struct {
	driver.Driver
	after func()
}

func (s *retaken) Restore(ctx context.Context, aside, path string) error {
	err := s.Driver.Restore(ctx, aside, path)
	if err == nil {
		s.after()
	}
	return err
}

// A link that somebody takes just after it was put back is left to him: he may
// have to put it back himself.
func TestPutBackLeavesWhatIsTakenAgain(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &retaken{Driver: open(t)}
			repo := New(Options{Driver: store.Driver}).Repository("a")
			pushImage(t, repo, "one", "x")
			take := func() {
				check(t, store.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTag("a", "one")))
			}
			store.after = take
			take()
			check(t, New(Options{Driver: store}).RecoverTags(t.Context()))
			wantPlace(t, store, layout.ExpiringTag("a", "one"), true)
			check(t, New(Options{Driver: store.Driver}).RecoverTags(t.Context()))
			wantWholeTags(t, repo, []string{"one"})
		})
	}
}

// Where the sections of others cannot be waited for, age says who lives.
func TestRecoverTagsByAge(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			repo := New(Options{Driver: store}).Repository("a")
			pushImage(t, repo, "one", "x")
			check(t, store.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTags("a")+"/one"))
			for _, tt := range []struct {
				store driver.Driver
				back  bool
			}{{roomless{store}, false}, {aged{roomless{store}}, true}} {
				if err := New(Options{Driver: tt.store}).RecoverTags(t.Context()); errors.Is(err, driver.ErrNoSpace) == tt.back {
					t.Errorf("got %v", err)
				}
				wantPlace(t, store, layout.TagCurrent("a", "one"), tt.back)
			}
		})
	}
}

// A process that is stopped does not keep others from being mended for ever.
func TestRecoveryDoesNotWaitForEver(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		pushImage(t, r.Repository("a"), "one", "x")
		check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", "one"), layout.ExpiringTag("a", "one")))
		err := New(Options{Driver: drivertest.Frozen{Driver: r.driver, T: t}}).RecoverTags(context.Background())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		check(t, New(Options{Driver: aged{drivertest.Frozen{Driver: r.driver, T: t}}}).RecoverTags(context.Background()))
		wantWholeTags(t, r.Repository("a"), []string{"one"})
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
