package usage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

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
	g, err := tree.ReadGraph(ctx, c.store, name, func(_ tree.Link, err error) error { return unlessUnreadable(err) })
	if err != nil {
		return err
	}
	for d := range deleted {
		if g.Nodes[d] == nil {
			if err := unlessUnreadable(g.Read(ctx, c.store, tree.Link{Digest: d})); err != nil {
				return err
			}
		}
	}
	var tagged []oci.Digest
	for tag, err := range tree.Tags(ctx, c.store, name) {
		if err != nil {
			return err
		}
		tagged = append(tagged, tag.Target)
	}
	for d := range onlyRestorable(g, deleted, tagged) {
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
		for _, m := range record.Digests() {
			all[m] = true
		}
	}
	return all, nil
}

// unlessUnreadable returns err, or nil for a manifest that can't be read: what it needs is unknown.
func unlessUnreadable(err error) error {
	if tree.Unreadable(err) {
		return nil
	}
	return err
}

// onlyRestorable returns what the deleted manifests are and need, and no others do.
func onlyRestorable(g *tree.Graph, deleted map[oci.Digest]bool, tagged []oci.Digest) map[oci.Digest]bool {
	gone := g.Closure(slices.Collect(maps.Keys(deleted)))
	roots := tagged
	for d := range g.Nodes {
		if !gone[d] {
			roots = append(roots, d)
		}
	}
	for d := range g.Closure(roots) {
		delete(gone, d)
	}
	return gone
}
