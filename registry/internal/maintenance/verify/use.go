package verify

import (
	"cmp"
	"context"
	"maps"
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

// traceIn looks for users of the blobs in one repository.
func (v *verification) traceIn(ctx context.Context, name oci.Name, open map[oci.Digest]*Finding) {
	has := map[oci.Digest]*Finding{}
	for d, f := range open {
		if v.linked(ctx, layout.LayerLink(name, d)) || v.linked(ctx, layout.RevisionLink(name, d)) {
			has[d] = f
		}
	}
	if len(has) == 0 {
		return
	}
	users, tags := v.users(ctx, name, has), v.tagged(ctx, name)
	for d, f := range has {
		tag, by := nearestTag(d, users, tags)
		if f.Repository == "" || tag != "" {
			f.Repository, f.Tag, f.By = name, tag, by
		}
		if tag != "" {
			delete(open, d)
		}
	}
}

func (v *verification) linked(ctx context.Context, key string) bool {
	_, err := v.Store.Stat(ctx, key)
	return err == nil
}

// users returns the manifests of the repository that need one of the blobs, or a manifest.
func (v *verification) users(ctx context.Context, name oci.Name, blobs map[oci.Digest]*Finding) map[oci.Digest][]oci.Digest {
	users := map[oci.Digest][]oci.Digest{}
	g, err := tree.ReadGraph(ctx, v.Store, name, func(tree.Link, error) error { return nil })
	if err != nil {
		return users
	}
	for _, by := range slices.Sorted(maps.Keys(g.Nodes)) {
		for _, d := range g.Nodes[by].Needs {
			if blobs[d] != nil || g.Nodes[d] != nil {
				users[d] = append(users[d], by)
			}
		}
	}
	return users
}

// tagged returns the first tag of each manifest that has one.
func (v *verification) tagged(ctx context.Context, name oci.Name) map[oci.Digest]oci.Tag {
	tags := map[oci.Digest]oci.Tag{}
	for tag, err := range tree.Tags(ctx, v.Store, name) {
		if err != nil {
			break
		}
		if tags[tag.Target] == "" {
			tags[tag.Target] = tag.Name
		}
	}
	return tags
}

// nearestTag follows the users of d up to one that has a tag. by is the user of d on that way, "" if d itself has the
// tag. Without a tag it is the first user.
func nearestTag(d oci.Digest, users map[oci.Digest][]oci.Digest, tags map[oci.Digest]oci.Tag) (tag oci.Tag, by oci.Digest) {
	type step struct{ at, by oci.Digest }
	way, seen := []step{{at: d}}, map[oci.Digest]bool{d: true}
	for i := 0; i < len(way); i++ {
		if tag := tags[way[i].at]; tag != "" {
			return tag, way[i].by
		}
		for _, user := range users[way[i].at] {
			if !seen[user] {
				seen[user] = true
				way = append(way, step{user, cmp.Or(way[i].by, user)})
			}
		}
	}
	if len(way) > 1 {
		by = way[1].at
	}
	return "", by
}
