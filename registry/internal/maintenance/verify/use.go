package verify

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
)

// For how many damaged blobs a run looks for the images that use them, and how long.
const (
	maxTraced   = 100
	traceWithin = 10 * time.Minute
)

// trace adds to the findings of damaged blobs an image that uses each: one with a tag, if there is one. Manifests are
// read only in repositories that have such a blob. What cannot be read, or not in time, is left out: the names are a help and no
// finding.
func (v *verification) trace(ctx context.Context) error {
	open := map[oci.Digest]*Finding{} // of blobs for which no tag is known yet
	var all []*Finding
	for i := range v.report.Findings {
		if f := &v.report.Findings[i]; f.Kind == DamagedBlob && len(open) < maxTraced {
			open[f.Digest] = f
			all = append(all, f)
		}
	}
	if len(open) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, traceWithin)
	defer cancel()
	for name, err := range tree.Everything(limited, v.Store) {
		if limited.Err() != nil || len(open) == 0 {
			break
		}
		if err == nil {
			v.traceIn(limited, name, open)
		}
	}
	for _, f := range all {
		if f.Repository != "" {
			v.Log.Warn("an image uses a damaged blob", zap.String("digest", string(f.Digest)),
				zap.String("repository", string(f.Repository)), zap.String("tag", string(f.Tag)), zap.String("by", string(f.By)))
		}
	}
	return nil
}

// traceIn looks for users of the blobs in one repository, and for tags that lead to them.
func (v *verification) traceIn(ctx context.Context, name oci.Name, open map[oci.Digest]*Finding) {
	has := map[oci.Digest]*Finding{}
	for d, f := range open {
		if v.stored(ctx, layout.LayerLink(name, d)) || v.stored(ctx, layout.RevisionLink(name, d)) {
			has[d] = f
		}
	}
	if len(has) == 0 {
		return
	}
	g, err := tree.ReadGraph(ctx, v.Store, name, func(tree.Link, error) error { return nil })
	if err != nil {
		return
	}
	for tag, err := range tree.Tags(ctx, v.Store, name) {
		if err != nil {
			break
		}
		held := g.Closure([]oci.Digest{tag.Target})
		for d, f := range has {
			if held[d] {
				f.Repository, f.Tag, f.By = name, tag.Name, userOf(d, g, held)
				delete(has, d)
				delete(open, d)
			}
		}
	}
	for d, f := range has {
		if f.Repository == "" {
			f.Repository, f.By = name, userOf(d, g, nil)
		}
	}
}

// userOf returns the first manifest that needs d, of those in among if that isn't nil; "" if there is none.
func userOf(d oci.Digest, g *tree.Graph, among map[oci.Digest]bool) (by oci.Digest) {
	for user, n := range g.Nodes {
		if (among == nil || among[user]) && (by == "" || user < by) && slices.Contains(n.Needs, d) {
			by = user
		}
	}
	return by
}
