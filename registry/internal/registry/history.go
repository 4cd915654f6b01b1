package registry

import (
	"context"
	"slices"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// maxHistory bounds the targets of a tag that its history names.
const maxHistory = 2 * layout.MaxPushes

// Target is a manifest that a tag points at or has pointed at.
type Target struct {
	Digest    oci.Digest `json:"digest"`
	At        time.Time  `json:"at"`           // when it was pointed there
	By        string     `json:"by,omitempty"` // "" if unknown
	Current   bool       `json:"current"`      // the tag points there
	Available bool       `json:"available"`    // the tag can be pointed there again
}

// History returns what a tag points at and has pointed at, the latest first. What only
// distribution or a cache has recorded has no name and the date of the last push of that digest. Two
// processes that push the tag at the same moment may lose one of the entries. A manifest that is gone is available if its own
// deletion can be undone; that of a repository leaves no tag with a history. The error is MANIFEST_UNKNOWN or NAME_UNKNOWN if
// there is no such tag or repository.
func (r Repository) History(ctx context.Context, tag oci.Tag) ([]Target, error) {
	now, err := r.reg.tags.Read(ctx, r.name, tag)
	if absent(err) {
		return nil, r.unknown(ctx, r.tagUnknown(tag))
	}
	if err != nil && !tags.IsBadLink(err) {
		return nil, err
	}
	all, err := r.targets(ctx, tag)
	if err != nil {
		return nil, err
	}
	current := slices.IndexFunc(all, func(t Target) bool { return t.Digest == now.Digest })
	err = r.reg.store.Each(len(all), func(i int) error {
		all[i].Current = i == current
		err := r.revision(ctx, all[i].Digest)
		all[i].Available = err == nil
		return unlessAbsent(err)
	})
	if err != nil {
		return nil, err
	}
	gone := map[oci.Digest][]*Target{}
	for i := range all {
		if t := &all[i]; !t.Available {
			gone[t.Digest] = append(gone[t.Digest], t)
		}
	}
	if len(gone) == 0 {
		return all, nil
	}
	for d, err := range tree.Deletions(ctx, r.reg.store, r.name) { // their names are enough
		if err != nil {
			return nil, err
		}
		for _, t := range gone[d.Manifest] {
			t.Available = t.Available || r.reg.now().Before(d.Until)
		}
	}
	return all, nil
}

// targets joins the push record and the index of a tag, which distribution also writes.
func (r Repository) targets(ctx context.Context, tag oci.Tag) ([]Target, error) {
	pushes, err := tree.Pushes(ctx, r.reg.store, r.name, tag)
	if err != nil {
		return nil, err
	}
	var all []Target
	recorded := map[oci.Digest]bool{}
	for _, p := range pushes {
		recorded[p.Digest] = true
		all = append(all, Target{Digest: p.Digest, At: p.At, By: p.By})
	}
	prefix := layout.Tag(r.name, tag)
	for info, err := range r.reg.store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return nil, err
		}
		if d, ok := layout.ParseTagIndex(info.Key[len(prefix)+1:]); ok && !recorded[d] {
			all = append(all, Target{Digest: d, At: info.Modified.UTC()})
		}
	}
	slices.SortStableFunc(all, func(a, b Target) int { return b.At.Compare(a.At) })
	return all[:min(len(all), maxHistory)], nil
}

// PushedAt returns when each of the tags was last pushed, as retention counts it; zero for those that don't exist.
func (r Repository) PushedAt(ctx context.Context, all []oci.Tag) ([]time.Time, error) {
	times := make([]time.Time, len(all))
	err := r.reg.store.Each(len(all), func(i int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		link, ok := tree.ReadLink(ctx, r.reg.store, layout.TagCurrent(r.name, all[i]), "")
		if !ok {
			return nil
		}
		tag := tree.Tag{Name: all[i], Link: link}
		var err error
		times[i], _, err = tag.Pushed(ctx, r.reg.store, r.name)
		return err
	})
	return times, err
}
