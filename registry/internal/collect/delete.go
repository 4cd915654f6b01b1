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
	key      string
	digest   oci.Digest
	revision bool
}

// garbage returns the links of a repository that go, manifests first: a manifest
// that is in place has all that it needs.
func (r *run) garbage(repo *repository) []garbage {
	var all []garbage
	for i := range repo.revisions {
		if rev := &repo.revisions[i]; !rev.live {
			d := r.digests.digest(rev.id)
			all = append(all, garbage{layout.RevisionLink(repo.name, d), d, true})
		}
	}
	for i := range repo.layers {
		if l := &repo.layers[i]; !l.live {
			all = append(all, garbage{layout.LayerLink(repo.name, l.digest), l.digest, false})
		}
	}
	return all
}

// deleteLinks deletes what of a repository goes.
func (r *run) deleteLinks(ctx context.Context, repo *repository) error {
	for part := range slices.Chunk(r.garbage(repo), storage.MaxPending) {
		alone, err := r.DryRun, error(nil)
		if !alone {
			alone, err = r.exclusive.do(func() error { return r.deleteNow(ctx, repo, part) })
		}
		if !alone {
			part, err = r.deleteListed(ctx, repo, part)
		}
		if err != nil {
			return err
		}
		r.linksGone(repo, part)
	}
	return nil
}

// deleteListed deletes, while it is listed, what is garbage at a second look, too.
// It returns that.
func (r *run) deleteListed(ctx context.Context, repo *repository, part []garbage) (gone []garbage, err error) {
	keys, listed := make([]string, len(part)), make(map[string]bool, len(part))
	for i := range part {
		keys[i], listed[part[i].key] = part[i].key, true
	}
	err = r.listed(ctx, keys, func(ctx context.Context) error {
		again := &repository{name: repo.name, events: repo.events, listed: listed}
		if err := r.look(ctx, again); err != nil {
			return err
		}
		still := map[string]bool{}
		for _, g := range r.garbage(again) {
			still[g.key] = true
		}
		part = slices.DeleteFunc(part, func(g garbage) bool { return !still[g.key] })
		return r.deleteNow(ctx, again, part)
	})
	return part, err
}

// perChange is how many links a worker deletes at a time.
const perChange = 256

// deleteNow deletes links: those of manifests durably before those that they need,
// which may come back after a power loss. If nothing is left of the repository all
// are deleted durably, for a store of files then removes its directories.
func (r *run) deleteNow(ctx context.Context, repo *repository, part []garbage) error {
	split, stays := manifests(part), repo.stays()
	for _, links := range [][]garbage{part[:split], part[split:]} {
		g := r.group(ctx)
		for some := range slices.Chunk(links, perChange) {
			g.do(func(ctx context.Context) error {
				stage := make(storage.Stage, len(some))
				for i := range some {
					stage[i] = storage.Change{Key: some[i].key, Delete: true, Ephemeral: stays && !some[i].revision}
				}
				return r.Store.Apply(ctx, nil, stage)
			})
		}
		if err := g.wait(); err != nil {
			return err
		}
	}
	return nil
}

// manifests is how many of the links are those of manifests, which come first.
func manifests(part []garbage) int {
	if at := slices.IndexFunc(part, func(g garbage) bool { return !g.revision }); at >= 0 {
		return at
	}
	return len(part)
}

// blob is stored bytes that go.
type blob struct {
	id   id
	size int64
}

// perList is how many blobs are deleted with one list.
const perList = 4096

// collectBytes deletes the bytes to which no link leads.
func (r *run) collectBytes(ctx context.Context) error {
	g := r.group(ctx)
	g.try(func(ctx context.Context) error { return r.eachPrefix(ctx, g, r.collectPrefix) })
	if err := g.wait(); err != nil {
		return err
	}
	return r.deleteBytes(ctx, 1)
}

// collectPrefix looks at the bytes below a prefix.
func (r *run) collectPrefix(ctx context.Context, prefix string, alg oci.Algorithm) error {
	var gone []blob
	for l, err := range r.blobs(ctx, prefix, alg) {
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
	alone, err := r.DryRun, error(nil)
	if !alone {
		alone, err = r.exclusive.do(func() error { return r.deleteBytesNow(ctx, gone) })
	}
	if err == nil && alone {
		r.bytesGone(gone)
	}
	if err != nil || alone {
		return err
	}
	r.mu.Lock()
	r.bytes = append(r.bytes, gone...)
	r.mu.Unlock()
	return r.deleteBytes(ctx, perList)
}

// deleteBytes deletes, while they are listed, the bytes that were found to go, if
// they are at least so many, and if no writer has linked them since the run began.
func (r *run) deleteBytes(ctx context.Context, atLeast int) error {
	r.mu.Lock()
	all := r.bytes
	if len(all) < atLeast {
		r.mu.Unlock()
		return nil
	}
	r.bytes = nil
	r.mu.Unlock()
	for part := range slices.Chunk(all, perList) {
		keys := make([]string, len(part))
		for i, b := range part {
			keys[i] = layout.BlobData(r.digests.digest(b.id))
		}
		err := r.listed(ctx, keys, func(ctx context.Context) error {
			if err := r.readMarks(ctx); err != nil {
				return err
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
	return r.Store.Apply(ctx, nil, stage)
}

func (r *run) bytesGone(part []blob) {
	for _, b := range part {
		r.emit(Event{Kind: OldBlob, Digest: r.digests.digest(b.id)})
		r.count(func(p *Report) { p.free(b.size) })
	}
}
