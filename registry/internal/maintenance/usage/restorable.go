package usage

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// graph is the manifests of a repository, those that were deleted and can be restored among them.
type graph struct {
	refs      map[oci.Digest]oci.References
	referrers map[oci.Digest][]oci.Digest
	deleted   map[oci.Digest]bool // by themselves, or by the tag that pointed at them
	tagged    []oci.Digest
}

// restorable counts the bytes of a repository that only what was deleted and can be restored needs.
// Manifests that can't be read are left out: a collection would skip the repository or let them go.
func (c *counter) restorable(ctx context.Context, name oci.Name, i int32) error {
	if !c.trash[name] {
		return nil
	}
	deleted, err := c.deletedFrom(ctx, name)
	if err != nil || len(deleted) == 0 {
		return err
	}
	g := graph{refs: map[oci.Digest]oci.References{}, referrers: map[oci.Digest][]oci.Digest{}, deleted: deleted}
	for link, err := range tree.Revisions(ctx, c.store, name) {
		if err == nil && link.Err == nil {
			err = g.read(ctx, c.store, link.Target)
		}
		if err != nil {
			return err
		}
	}
	for d := range deleted {
		if _, known := g.refs[d]; known {
			continue
		}
		if err := g.read(ctx, c.store, d); err != nil {
			return err
		}
	}
	for tag, err := range tree.Tags(ctx, c.store, name) {
		if err != nil {
			return err
		}
		g.tagged = append(g.tagged, tag.Target)
	}
	for d := range g.onlyRestorable() {
		k := keyOf(d)
		b, known := c.blobs[k]
		if !known {
			info, err := c.store.Stat(ctx, layout.BlobData(d))
			if errors.Is(err, storage.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			b = blob{size: info.Size, owner: unowned}
		}
		if b.owner == unowned {
			c.deleted[k] = true
		}
		c.report.Repositories[i].Restorable += b.size
	}
	return nil
}

// deletedFrom returns the manifests that deletions which can be undone name.
func (c *counter) deletedFrom(ctx context.Context, name oci.Name) (map[oci.Digest]bool, error) {
	all := map[oci.Digest]bool{}
	for d, err := range tree.Deletions(ctx, c.store, name) {
		if err != nil {
			return nil, err
		}
		if !time.Now().Before(d.Until) {
			continue
		}
		record, err := d.Read(ctx, c.store)
		if err != nil {
			return nil, err
		}
		for _, m := range record.Manifests {
			all[m] = true
		}
		for _, m := range record.Tags {
			all[m] = true
		}
	}
	return all, nil
}

func (g *graph) read(ctx context.Context, s storage.Store, d oci.Digest) error {
	body, _, err := storage.Read(ctx, s, layout.BlobData(d), tree.MaxManifest)
	if errors.Is(err, storage.ErrNotExist) || errors.Is(err, storage.ErrTooLarge) {
		return nil
	} else if err != nil {
		return err
	}
	refs, err := oci.ReadReferences(body)
	if err != nil {
		return nil //nolint:nilerr // what it needs is unknown
	}
	g.refs[d] = *refs
	if refs.Subject != "" {
		g.referrers[refs.Subject] = append(g.referrers[refs.Subject], d)
	}
	return nil
}

// onlyRestorable returns what the deleted manifests are and need, and no others do.
func (g *graph) onlyRestorable() map[oci.Digest]bool {
	gone := g.reach(g.deleted)
	roots := map[oci.Digest]bool{}
	for _, d := range g.tagged {
		roots[d] = true
	}
	for d := range g.refs {
		if !gone[d] {
			roots[d] = true
		}
	}
	for d := range g.reach(roots) {
		delete(gone, d)
	}
	return gone
}

// reach returns the manifests, all that they need, and what refers to them.
func (g *graph) reach(roots map[oci.Digest]bool) map[oci.Digest]bool {
	reached := map[oci.Digest]bool{}
	var todo []oci.Digest
	for d := range roots {
		todo = append(todo, d)
	}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[d] {
			continue
		}
		reached[d] = true
		todo = append(todo, g.refs[d].Needed...)
		todo = append(todo, g.referrers[d]...)
	}
	return reached
}
