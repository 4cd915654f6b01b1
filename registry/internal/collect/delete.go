package collect

import (
	"context"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// garbage is a link that goes.
type garbage struct {
	key    string
	listed string // what writers look for who are about to write it
	digest oci.Digest
	kind   linkKind
}

type linkKind int

const (
	revisionLink linkKind = iota // a manifest
	layerLink                    // a blob of the repository
	historyLink                  // where a tag once pointed
)

// garbage returns the links of a repository that go, manifests first: a manifest
// that is in place has all that it needs.
func (r *run) garbage(repo *repository) []garbage {
	var all []garbage
	for i := range repo.revisions {
		if rev := &repo.revisions[i]; !rev.live {
			d := r.digests.digest(rev.id)
			key := layout.RevisionLink(repo.name, d)
			all = append(all, garbage{key, key, d, revisionLink})
		}
	}
	for i := range repo.layers {
		if l := &repo.layers[i]; !l.live {
			d := r.digests.digest(l.id)
			key := layout.LayerLink(repo.name, d)
			all = append(all, garbage{key, key, d, layerLink})
		}
	}
	for _, h := range repo.outdated() {
		d := r.digests.digest(h.at)
		all = append(all, garbage{layout.TagIndex(repo.name, h.name, d), layout.RevisionLink(repo.name, d), d, historyLink})
	}
	return all
}

// part is garbage of one repository.
type part struct {
	repo  *repository
	links []garbage
	gone  []garbage // of the links, those that are deleted
}

// Bounds of what goes with one list: the blobs, and the things in the repositories that
// are looked at again meanwhile, while pushes may wait for it.
const (
	perList = 4096
	perLook = 1024
)

// atOnce says whether there are no lists: in a dry run, and while nobody serves.
func (r *run) atOnce() bool { return r.DryRun || r.exclusive != nil }

// deleteLinks deletes what of a repository goes: at once, or with the next list.
func (r *run) deleteLinks(ctx context.Context, repo *repository) error {
	all := r.garbage(repo)
	if len(all) == 0 {
		return r.tidyLinks(ctx, repo)
	}
	for links := range slices.Chunk(all, storage.MaxPending/2) {
		parts := []part{{repo: repo, links: links}}
		if !r.atOnce() {
			parts = r.linkBatch.add(parts[0], max(len(links), len(repo.revisions)+len(repo.layers)+len(repo.tags)+len(repo.history)))
		}
		if err := r.deleteParts(ctx, parts); err != nil {
			return err
		}
	}
	return nil
}

// deleteParts deletes the links, counts and emits those that are gone, and tidies up
// behind them.
func (r *run) deleteParts(ctx context.Context, parts []part) (err error) {
	var keys []string
	for _, p := range parts {
		for _, g := range p.links {
			keys = append(keys, g.listed)
		}
	}
	if len(keys) > 0 {
		err = r.listed(ctx, keys, func(ctx context.Context) error {
			g := r.group(ctx)
			for i := range parts {
				g.do(func(ctx context.Context) error { return r.deletePart(ctx, &parts[i]) })
			}
			return g.wait()
		})
	}
	for i := range parts {
		r.countLinks(&parts[i])
		if err == nil {
			err = r.tidyLinks(ctx, parts[i].repo)
		}
	}
	return err
}

// deletePart deletes links of a repository: where they are listed, those that are garbage
// at a second look, too.
func (r *run) deletePart(ctx context.Context, p *part) error {
	if r.atOnce() {
		return r.deleteNow(ctx, p)
	}
	again := &repository{name: p.repo.name, listed: make(map[string]bool, len(p.links))}
	for i := range p.links {
		again.listed[p.links[i].key] = true
	}
	if err := r.look(ctx, again); err != nil {
		return err
	}
	still := map[string]bool{}
	for _, g := range r.garbage(again) {
		still[g.key] = true
	}
	p.repo, p.links = again, slices.DeleteFunc(p.links, func(g garbage) bool { return !still[g.key] })
	return r.deleteNow(ctx, p)
}

// perChange is how many links a worker deletes at a time.
const perChange = 256

// deleteNow deletes links: those of manifests durably before those that they need,
// which may come back after a power loss. If nothing is left of the repository all
// are deleted durably, for a store of files then removes its directories. Also with an
// error p knows which are gone.
func (r *run) deleteNow(ctx context.Context, p *part) error {
	split, stays := manifests(p.links), p.repo.stays()
	for _, links := range [][]garbage{p.links[:split], p.links[split:]} {
		g := r.group(ctx)
		chunks := slices.Collect(slices.Chunk(links, perChange))
		deleted := make([][]garbage, len(chunks))
		for at, some := range chunks {
			g.do(func(ctx context.Context) error {
				stage := make(storage.Stage, len(some))
				for i := range some {
					stage[i] = storage.Change{Key: some[i].key, Delete: true, Ephemeral: stays && some[i].kind != revisionLink}
				}
				err := r.apply(ctx, stage)
				if err == nil {
					deleted[at] = some
				}
				return err
			})
		}
		err := g.wait()
		p.gone = slices.Concat(p.gone, slices.Concat(deleted...))
		if err != nil {
			return err
		}
	}
	return nil
}

// manifests is how many of the links are those of manifests, which come first.
func manifests(links []garbage) int {
	if at := slices.IndexFunc(links, func(g garbage) bool { return g.kind != revisionLink }); at >= 0 {
		return at
	}
	return len(links)
}

// countLinks counts and emits which links were deleted.
func (r *run) countLinks(p *part) {
	var n [historyLink + 1]int64
	for _, g := range p.gone {
		n[g.kind]++
	}
	r.count(func(p *Report) {
		p.Manifests.Freed += n[revisionLink]
		p.Manifests.Kept -= n[revisionLink]
		p.LayerLinks += n[layerLink]
		p.TagEntries += n[historyLink]
	})
	r.tellGone(p)
}

// blob is stored bytes that go.
type blob struct {
	id   id
	size int64
}

// collectBytes deletes the bytes to which no link leads.
func (r *run) collectBytes(ctx context.Context) error {
	g := r.group(ctx)
	g.try(func(ctx context.Context) error { return r.eachPrefix(ctx, g, r.collectPrefix) })
	if err := g.wait(); err != nil {
		return err
	}
	return r.deleteBytes(ctx, r.byteBatch.take())
}

// collectPrefix looks at the bytes below a prefix.
func (r *run) collectPrefix(ctx context.Context, prefix string, alg oci.Algorithm) error {
	var gone []blob
	for l, err := range r.objects(ctx, prefix, "/data", alg) {
		if err != nil {
			return err
		}
		i := r.digests.add(l.digest)
		what := r.digests.what(i)
		if what == 0 && r.evidence(ctx, l) {
			what = recent
		}
		if what != 0 {
			r.count(func(p *Report) { p.keep(what, l.Size) })
			continue
		}
		gone = append(gone, blob{i, l.Size})
	}
	if len(gone) == 0 {
		return nil
	}
	found := [][]blob{gone}
	if !r.atOnce() {
		found = r.byteBatch.add(gone, len(gone))
	}
	return r.deleteBytes(ctx, found)
}

// deleteBytes deletes the bytes that were found to go, if no writer has linked them since
// the run began.
func (r *run) deleteBytes(ctx context.Context, found [][]blob) error {
	for part := range slices.Chunk(slices.Concat(found...), perList) {
		keys := make([]string, len(part))
		for i, b := range part {
			keys[i] = layout.BlobData(r.digests.digest(b.id))
		}
		err := r.listed(ctx, keys, func(ctx context.Context) error {
			if !r.atOnce() {
				if err := r.readMarks(ctx); err != nil {
					return err
				}
			}
			part = slices.DeleteFunc(part, func(b blob) bool {
				what := r.digests.what(b.id)
				if what != 0 {
					r.count(func(p *Report) { p.keep(what, b.size) })
				}
				return what != 0
			})
			return r.deleteBytesNow(ctx, part)
		})
		if err != nil {
			return err
		}
		r.bytesGone(part)
	}
	return nil
}

// deleteBytesNow deletes bytes. That need not outlive a power loss: then they are
// garbage again.
func (r *run) deleteBytesNow(ctx context.Context, part []blob) error {
	stage := make(storage.Stage, len(part))
	for i, b := range part {
		stage[i] = storage.Change{Key: layout.BlobData(r.digests.digest(b.id)), Delete: true, Ephemeral: true}
	}
	return r.apply(ctx, stage)
}

func (r *run) bytesGone(part []blob) {
	for _, b := range part {
		r.emit(func(tell func(Event)) { tell(Event{Kind: OldBlob, Digest: r.digests.digest(b.id)}) })
		r.count(func(p *Report) { p.free(b.size) })
	}
}
