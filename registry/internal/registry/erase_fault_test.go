package registry

import (
	"context"
	"errors"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

var errDisk = errors.New("the disk failed")

// unreadable is a storage that cannot read what lies at a path, for as often as
// it is said.
type unreadable struct {
	driver.Driver
	path  string
	times int
}

func (u *unreadable) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if path == u.path && u.times > 0 {
		u.times--
		return nil, errDisk
	}
	return u.Driver.ReadFile(ctx, path, limit)
}

// A tag that cannot be read may be one of the manifest, and immutable: nothing
// is deleted then.
func TestDeletionNeedsToReadTags(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &unreadable{Driver: open(t), path: layout.TagCurrent("a", "one")}
			repo := New(Options{Driver: store.Driver}).Repository("a")
			d := pushImage(t, repo, "one", "x")
			pushImage(t, repo, "two", "x")
			store.times = 1
			removed, err := New(Options{Driver: store, DeleteEnabled: true}).Repository("a").DeleteManifest(t.Context(), d)
			if !errors.Is(err, errDisk) {
				t.Errorf("removed %q, %v", removed, err)
			}
			wantWholeTags(t, repo, []string{"one", "two"})
		})
	}
}

// A link that cannot be looked at again is put back, and the error is told: it
// may be the one that was meant.
func TestUnreadableLinkIsNotAnotherOne(t *testing.T) {
	for name, open := range drivers {
		for _, aside := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				store := &unreadable{Driver: open(t), path: layout.TagCurrent("a", "one")}
				if aside {
					store.path = layout.ExpiringTags("a") + "/one"
				}
				repo := New(Options{Driver: store}).Repository("a")
				d := pushImage(t, repo, "one", "x")
				store.times = 1
				removed, err := repo.ExpireTag(t.Context(), "one", d, linkTime(t, repo, "one"))
				if removed || !errors.Is(err, errDisk) {
					t.Errorf("removed %v, %v", removed, err)
				}
				wantWholeTags(t, repo, []string{"one"})
			})
		}
	}
}

// What is known to hold no digest is another link than the one that was meant.
func TestBadLinkIsAnotherOne(t *testing.T) {
	onDrivers(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		d := pushImage(t, repo, "one", "x")
		check(t, r.driver.Commit(t.Context(), driver.Stage{{Path: layout.TagCurrent("a", "one"), Content: []byte("no digest")}}))
		removed, err := repo.ExpireTag(t.Context(), "one", d, linkTime(t, repo, "one"))
		if removed || err != nil {
			t.Errorf("removed %v, %v", removed, err)
		}
		_, err = repo.DeleteManifest(t.Context(), d)
		check(t, err)
		_, err = repo.Manifest(t.Context(), oci.Reference{Digest: d})
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}
