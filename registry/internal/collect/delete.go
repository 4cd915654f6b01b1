package collect

import (
	"context"
	"errors"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// garbage is something that goes.
type garbage struct {
	kind Kind // OldManifest, OldLayer, OldTag: a link of a repository; OldBlob: bytes
	id   id
	tag  oci.Tag // of OldTag
	size int64   // of OldBlob
}

// part is garbage that is looked at again together: links of one repository, manifests
// first, or bytes.
type part struct {
	repo *repository // nil = bytes
	all  []garbage
	gone []garbage // what of it is deleted
}

// key is where it lies.
func (r *run) key(repo *repository, g garbage) string {
	switch d := r.digests.digest(g.id); g.kind {
	case OldManifest:
		return layout.RevisionLink(repo.name, d)
	case OldLayer:
		return layout.LayerLink(repo.name, d)
	case OldTag:
		return layout.TagIndex(repo.name, g.tag, d)
	default:
		return layout.BlobData(d)
	}
}

// keys returns those for which writers look.
func (r *run) keys(parts []*part) (keys []string) {
	for _, p := range parts {
		for _, g := range p.all {
			if g.kind == OldTag { // who is about to write it puts its manifest, too
				g.kind = OldManifest
			}
			keys = append(keys, r.key(p.repo, g))
		}
	}
	return keys
}

// Bounds of what goes with one list, while pushes may wait for it: so many bytes, or a
// quarter as many things in the repositories that are looked at again meanwhile.
const (
	perList = 4096
	perLook = 4 // weighs a thing that is looked at again
)

// deleteLinks deletes what of a repository goes.
func (r *run) deleteLinks(ctx context.Context, repo *repository) error {
	all := repo.garbage()
	if len(all) == 0 {
		return r.tidyLinks(ctx, repo)
	}
	for some := range slices.Chunk(all, storage.MaxPending/2) {
		things := len(repo.revisions) + len(repo.layers) + len(repo.tags) + len(repo.history)
		if err := r.delete(ctx, &part{repo: repo, all: some}, perLook*things); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a part: at once, or when there is enough for a list.
func (r *run) delete(ctx context.Context, p *part, weight int) error {
	if r.DryRun || r.alone.Load() {
		return r.deleteParts(ctx, []*part{p})
	}
	r.mu.Lock()
	if p.repo == nil && len(r.waiting) > 0 { // bytes are one part, whose marks are read once
		r.waiting[0].all = append(r.waiting[0].all, p.all...)
	} else {
		r.waiting = append(r.waiting, p)
	}
	r.weight += weight
	enough := r.weight >= perList
	r.mu.Unlock()
	if enough {
		return r.deleteWaiting(ctx)
	}
	return nil
}

// deleteWaiting deletes what waits for the next list.
func (r *run) deleteWaiting(ctx context.Context) error {
	r.mu.Lock()
	parts := r.waiting
	r.waiting, r.weight = nil, 0
	r.mu.Unlock()
	return r.deleteParts(ctx, parts)
}

// deleteParts deletes parts with one list, counts and emits what is gone, and tidies up
// behind it.
func (r *run) deleteParts(ctx context.Context, parts []*part) (err error) {
	if len(parts) == 0 {
		return nil
	}
	err = r.listed(ctx, parts, func(ctx context.Context) error {
		return each(ctx, r, parts, r.deletePart)
	})
	for _, p := range parts {
		r.tellGone(p)
		if err == nil && p.repo != nil {
			err = r.tidyLinks(ctx, p.repo)
		}
	}
	return err
}

// deletePart deletes what of a part is garbage at a second look, too. Where there is no
// list the first one is right.
func (r *run) deletePart(ctx context.Context, p *part) error {
	if r.DryRun || r.alone.Load() {
		return r.deleteNow(ctx, p)
	}
	if p.repo == nil {
		if err := r.readMarks(ctx); err != nil {
			return err
		}
		p.all = slices.DeleteFunc(p.all, func(g garbage) bool { return r.keepBytes(g.id, g.size) })
		return r.deleteNow(ctx, p)
	}
	again := &repository{name: p.repo.name, listed: setOf(p.all)}
	if err := r.look(ctx, again); err != nil {
		return err
	}
	still := setOf(again.garbage())
	p.repo, p.all = again, slices.DeleteFunc(p.all, func(g garbage) bool { return !still[g] })
	return r.deleteNow(ctx, p)
}

func setOf(all []garbage) map[garbage]bool {
	set := make(map[garbage]bool, len(all))
	for _, g := range all {
		set[g] = true
	}
	return set
}

// perChange is how much a worker deletes at a time.
const perChange = 256

// deleteNow deletes a part: links of manifests durably before those that they need,
// which may come back after a power loss, as may bytes: then they are garbage again.
// If nothing is left of a repository all are deleted durably, for a store of files then
// removes its directories. Also with an error p knows what is gone, and what is not.
func (r *run) deleteNow(ctx context.Context, p *part) error {
	split := slices.IndexFunc(p.all, func(g garbage) bool { return g.kind != OldManifest })
	if split < 0 {
		split = len(p.all)
	}
	durable := p.repo != nil && !p.repo.stays()
	for _, all := range [][]garbage{p.all[:split], p.all[split:]} {
		err := each(ctx, r, slices.Collect(slices.Chunk(all, perChange)), func(ctx context.Context, some []garbage) error {
			if r.wanted() {
				return errWanted
			}
			stage := make(storage.Stage, len(some))
			for i := range some {
				stage[i] = storage.Change{Key: r.key(p.repo, some[i]), Delete: true, Ephemeral: !durable && some[i].kind != OldManifest}
			}
			err := r.apply(ctx, stage)
			if err == nil {
				r.mu.Lock()
				p.gone = append(p.gone, some...)
				r.mu.Unlock()
			}
			return err
		})
		if err != nil {
			gone := setOf(p.gone)
			p.all = slices.DeleteFunc(p.all, func(g garbage) bool { return gone[g] })
			return err
		}
	}
	return nil
}

// tidyLinks takes away, where nothing of a repository stays, the directories of links
// that distribution has deleted without them. On other stores there are none. A link
// that comes meanwhile stays: only one that is absent is deleted.
func (r *run) tidyLinks(ctx context.Context, repo *repository) error {
	if repo.stays() {
		return nil
	}
	absent := []string{layout.TagCurrent(repo.name, "latest")} // also where there are no tags any more
	for _, alg := range tree.Algorithms() {
		for prefix, key := range map[string]func(oci.Name, oci.Digest) string{
			layout.Revisions(repo.name, alg): layout.RevisionLink, layout.Layers(repo.name, alg): layout.LayerLink,
		} {
			for l, err := range r.names(ctx, prefix, alg) {
				if err != nil {
					return err
				}
				absent = append(absent, key(repo.name, l.digest))
			}
		}
	}
	for _, key := range absent {
		err := r.apply(ctx, storage.Stage{{Key: key, Delete: true, If: storage.IfAbsent()}})
		if err != nil && !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return nil
}
