package registry

import (
	"context"
	"errors"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// mortal is a storage as a process sees it that dies after so many changes.
type mortal struct {
	driver.Driver
	left int
}

var errDead = errors.New("the process is dead")

func (m *mortal) change(do func() error) error {
	if m.left == 0 {
		return errDead
	}
	m.left--
	return do()
}

func (m *mortal) SetAside(ctx context.Context, path, aside string) error {
	return m.change(func() error { return m.Driver.SetAside(ctx, path, aside) })
}

func (m *mortal) Discard(ctx context.Context, path string) error {
	return m.change(func() error { return m.Driver.Discard(ctx, path) })
}

func (m *mortal) Prune(ctx context.Context, dir string) error {
	return m.change(func() error { return m.Driver.Prune(ctx, dir) })
}

func (m *mortal) Stat(ctx context.Context, path string) (driver.Info, error) {
	if m.left == 0 {
		return driver.Info{}, errDead
	}
	return m.Driver.Stat(ctx, path)
}

// Killed after any change, the expiry of a tag leaves it or takes it, and the
// next one ends what it began. The other tags never notice.
func TestKilledExpiry(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		d := memory.New()
		now := New(Options{Driver: d})
		repo := now.Repository("a")
		pushImage(t, repo, "old", "before") // a second entry of the history
		old, kept := pushImage(t, repo, "old", "x"), pushImage(t, repo, "kept", "x")
		since := linkTime(t, repo, "old")

		m := &mortal{Driver: d, left: step}
		dying := New(Options{Driver: m}).Repository("a")
		removed, err := dying.ExpireTag(t.Context(), "old", old, since)
		if err == nil {
			err = dying.FinishExpiry(t.Context())
		}
		done = err == nil
		if done && !removed {
			t.Fatal("the tag was not removed")
		}

		check(t, New(Options{Driver: aged{d}}).RecoverTags(t.Context()))
		if got, err := repo.Manifest(t.Context(), tagged("old")); err == nil && got.Digest != old {
			t.Errorf("killed after %d changes, the tag is %s", step, got.Digest)
		}
		_, err = repo.ExpireTag(t.Context(), "old", old, since)
		check(t, err)
		check(t, repo.FinishExpiry(t.Context()))
		_, err = repo.Manifest(t.Context(), tagged("old"))
		wantCode(t, err, oci.CodeManifestUnknown)
		if tags, _, err := repo.Tags(t.Context(), -1, ""); err != nil || len(tags) != 1 || tags[0] != "kept" {
			t.Errorf("killed after %d changes, then run again: tags %v, %v", step, tags, err)
		}
		if got, err := repo.Manifest(t.Context(), tagged("kept")); err != nil || got.Digest != kept {
			t.Errorf("killed after %d changes, the other tag is %v, %v", step, got, err)
		}
		for e, err := range d.List(t.Context(), layout.Expiring, "") {
			if !absent(err) {
				t.Errorf("killed after %d changes, %s stays behind, %v", step, e.Name, err)
			}
		}
	}
}
