package registry

import (
	"context"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// collected is a storage where a collector sets the object at a path aside once it
// was touched, and puts it back when somebody has looked for it there in vain: it
// has changed since the collector looked at it first.
type collected struct {
	driver.Driver
	path  string
	aside bool // now
	done  bool // it was set aside after a touch
}

func (c *collected) setAside(ctx context.Context) {
	c.aside = c.SetAside(ctx, c.path, layout.Aside(c.path)) == nil
}

func (c *collected) putBack(ctx context.Context) {
	if c.aside {
		_ = c.Driver.Restore(ctx, layout.Aside(c.path), c.path)
		c.aside = false
	}
}

func (c *collected) Stat(ctx context.Context, path string) (driver.Info, error) {
	if path == layout.Aside(c.path) {
		c.putBack(ctx)
	}
	return c.Driver.Stat(ctx, path)
}

func (c *collected) Restore(ctx context.Context, aside, path string) error {
	if path == c.path {
		c.putBack(ctx)
	}
	return c.Driver.Restore(ctx, aside, path)
}

func (c *collected) Touch(ctx context.Context, path string, at time.Time) error {
	err := c.Driver.Touch(ctx, path, at)
	if path == c.path && !c.done {
		c.done = true
		c.setAside(ctx)
	}
	return err
}

// A collector that moves a link to and fro makes nobody believe that it is gone.
func TestWhatIsMovedBackIsThere(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &collected{Driver: open(t)}
			repo := New(Options{Driver: store, PromiseAge: time.Hour}).Repository("a")
			config := pushBlob(t, repo, "config")
			d := pushImage(t, repo, "v1", "x")
			for _, path := range []string{layout.LayerLink("a", config.Digest), layout.RevisionLink("a", d)} {
				check(t, store.Driver.Touch(t.Context(), path, store.Now().Add(-time.Hour)))
			}

			store.path, store.done = layout.LayerLink("a", config.Digest), false
			if _, err := repo.StatBlob(t.Context(), config.Digest); err != nil {
				t.Errorf("a blob: %v", err)
			}
			store.path, store.done = layout.RevisionLink("a", d), false
			if _, err := repo.Manifest(t.Context(), oci.Reference{Digest: d}); err != nil {
				t.Errorf("a manifest: %v", err)
			}
			store.setAside(t.Context())
			m, err := repo.Manifest(t.Context(), tagged("v1"))
			check(t, err)
			store.setAside(t.Context())
			index := image{MediaType: oci.MediaTypeIndex, Manifests: []oci.Descriptor{m.Descriptor}}
			if _, err := repo.PutManifest(t.Context(), tagged("list"), oci.MediaTypeIndex, index.bytes(), nil); err != nil {
				t.Errorf("a child of an index: %v", err)
			}
		})
	}
}
