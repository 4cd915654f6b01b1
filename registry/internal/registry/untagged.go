package registry

import (
	"context"
	"slices"
	"time"

	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
)

// Untagged is a manifest that no tag leads to.
type Untagged struct {
	Digest oci.Digest
	Pushed time.Time // the last time
}

// maxUntaggedBytes bounds the manifests that [Repository.Untagged] reads.
const maxUntaggedBytes = 16 << 20

// Untagged returns the manifests that a collection of untagged ones would remove, the last push first, without the parts and
// referrers of others of them. ok is false if the repository has more than n tags or manifests, or large ones: that many aren't read.
func (r Repository) Untagged(ctx context.Context, n int) (list []Untagged, ok bool, err error) {
	var roots []oci.Digest
	for tag, err := range tree.Tags(ctx, r.reg.store, r.name) {
		if err == nil && tag.Err != nil && !tree.Unreadable(tag.Err) {
			err = tag.Err
		}
		if err != nil {
			return nil, false, err
		}
		if len(roots) == n {
			return nil, false, nil
		}
		roots = append(roots, tag.Target)
	}
	g, left, size := tree.NewGraph(), n, int64(0)
	for link, err := range tree.Revisions(ctx, r.reg.store, r.name) {
		if err == nil {
			err = link.Err
		}
		if err == nil && link.Target == link.Digest {
			err = g.Read(ctx, r.reg.store, link)
		}
		if err != nil && (ctx.Err() != nil || !tree.Unreadable(err)) {
			return nil, false, err
		}
		if node := g.Nodes[link.Digest]; node != nil {
			size += node.Size
		}
		if left--; left < 0 || size > maxUntaggedBytes {
			return nil, false, nil
		}
	}
	held := g.Component(roots)
	inner := map[oci.Digest]bool{}
	for d, node := range g.Nodes {
		if held[d] {
			continue
		}
		for _, need := range node.Needs {
			inner[need] = true
		}
		inner[d] = inner[d] || g.Nodes[node.Subject] != nil
	}
	for d, node := range g.Nodes {
		if !held[d] && !inner[d] {
			list = append(list, Untagged{d, node.Modified})
		}
	}
	slices.SortFunc(list, func(a, b Untagged) int { return b.Pushed.Compare(a.Pushed) })
	return list, true, nil
}
