package collect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// link is a link of a repository to a manifest or to a blob.
type link struct {
	kind     Kind // when it goes: OldManifest, OldLayer
	id       id
	target   id // what it leads to: another digest, where distribution has linked it by another algorithm
	modified time.Time
	tagged   bool // a tag leads to the manifest
	live     bool // it stays
	young    bool // and that only because a client may rely on it
}

// repository is what a look at one has found.
type repository struct {
	name      oci.Name
	revisions []link  // to manifests, sorted by id
	layers    []link  // to blobs, sorted by id
	leads     [][]int // each manifest to those that it needs, to its subject, and back from that
	tags      []tag
	history   []tag
	users     users
	listed    map[garbage]bool // at the second look: what may be deleted

	mu         sync.Mutex
	unreadable bool // it is skipped
}

// find is where in the links one is.
func find(links []link, i id) (at int, ok bool) {
	return slices.BinarySearchFunc(links, i, func(l link, i id) int { return int(l.id) - int(i) })
}

// unlisted says whether a manifest stays because it is not listed: writers rely on it
// and on all that it needs without waiting. It may have come since the first look.
func (repo *repository) unlisted(i id) bool {
	return repo.listed != nil && !repo.listed[garbage{kind: OldManifest, id: i}]
}

// stays says whether anything of the repository does.
func (repo *repository) stays() bool {
	live := func(l link) bool { return l.live }
	return slices.ContainsFunc(repo.revisions, live) || slices.ContainsFunc(repo.layers, live)
}

// garbage returns what of a repository goes, manifests first: a manifest that is in
// place has all that it needs.
func (repo *repository) garbage() (all []garbage) {
	for _, l := range slices.Concat(repo.revisions, repo.layers) {
		if !l.live {
			all = append(all, garbage{kind: l.kind, id: l.id})
		}
	}
	for _, t := range repo.outdated() {
		all = append(all, garbage{kind: OldTag, id: t.at, tag: t.name})
	}
	return all
}

// collectRepositories collects every prefix that may be a repository, also by a name
// that only distribution takes (upper case in front, longer than ours). A prefix
// that cannot be listed ends the run: who knows what it needs.
func (r *run) collectRepositories(ctx context.Context) error {
	g := r.group(ctx)
	g.here(func(ctx context.Context) error {
		for name, err := range tree.Everything(ctx, r.Store) {
			if err == nil {
				err = r.step(ctx)
			}
			if err != nil {
				return err
			}
			g.do(func(ctx context.Context) error { return r.collectRepository(ctx, &repository{name: name}) })
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return r.deleteWaiting(ctx)
}

// collectRepository deletes what no manifest of a repository needs and no client
// relies on.
func (r *run) collectRepository(ctx context.Context, repo *repository) error {
	if err := r.look(ctx, repo); err != nil {
		return err
	}
	r.count(func(p *Report) {
		p.Repositories++
		p.Manifests.Found += int64(len(repo.revisions))
		p.Manifests.Kept += int64(len(repo.revisions))
	})
	r.tellKept(repo)
	return r.deleteLinks(ctx, repo)
}

// look reads a repository and decides what of it stays. It marks the digests of
// that.
func (r *run) look(ctx context.Context, repo *repository) (err error) {
	if repo.revisions, err = r.readLinks(ctx, repo, OldManifest, layout.Revisions); err != nil {
		return err
	}
	if err := r.readRevisions(ctx, repo); err != nil {
		return err
	}
	if err := r.readTags(ctx, repo); err != nil {
		return err
	}
	if repo.layers, err = r.readLinks(ctx, repo, OldLayer, layout.Layers); err != nil {
		return err
	}
	if err := r.decide(ctx, repo); err != nil {
		return err
	}
	r.mark(repo)
	return nil
}

// readLinks finds the links of a repository below a prefix for each algorithm. Of blobs
// the names are enough while ages do not matter.
func (r *run) readLinks(ctx context.Context, repo *repository, kind Kind, prefix func(oci.Name, oci.Algorithm) string) (all []link, err error) {
	list := r.links
	if kind == OldLayer && !r.ages() {
		list = r.names
	}
	for _, alg := range tree.Algorithms() {
		for l, err := range list(ctx, prefix(repo.name, alg), alg) {
			if err != nil {
				return nil, err
			}
			i := r.digests.add(l.digest)
			found := link{kind: kind, id: i, target: i, modified: l.Modified}
			if alg != oci.SHA256 {
				if found.target, err = r.target(ctx, prefix(repo.name, alg)+"/"+l.digest.Hex()+"/link", i); err != nil {
					return nil, err
				}
			}
			all = append(all, found)
		}
	}
	slices.SortFunc(all, func(a, b link) int { return int(a.id) - int(b.id) })
	return all, nil
}

// target is what the link at key leads to, which is named after i.
func (r *run) target(ctx context.Context, key string, i id) (id, error) {
	l, there := tree.ReadLink(ctx, r.Store, key, "")
	switch {
	case !there || errors.Is(l.Err, layout.ErrBadLink) || errors.Is(l.Err, layout.ErrEmptyLink):
		return i, nil
	case l.Err != nil:
		return i, l.Err
	}
	return r.digests.add(l.Target), nil
}

// readRevisions reads what the manifests of a repository need. One with a manifest that
// cannot be read is skipped.
func (r *run) readRevisions(ctx context.Context, repo *repository) error {
	g := r.group(ctx)
	for _, rev := range repo.revisions {
		r.digests.mark(isRevision, rev.id)
		if r.digests.references(rev.id) != nil {
			continue
		}
		g.do(func(ctx context.Context) error {
			d := r.digests.digest(rev.id)
			refs, err := r.readReferences(ctx, d)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				r.skip(repo, d, err)
			default:
				r.digests.refer(rev.id, refs)
			}
			return r.step(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	repo.leads = make([][]int, len(repo.revisions))
	for at, rev := range repo.revisions {
		refs := r.digests.references(rev.id)
		if refs == nil {
			continue
		}
		for _, i := range refs.needs {
			if to, ok := find(repo.revisions, i); ok {
				repo.leads[at] = append(repo.leads[at], to)
			}
		}
		if to, ok := find(repo.revisions, refs.subject); ok && refs.hasSubject {
			repo.leads[at], repo.leads[to] = append(repo.leads[at], to), append(repo.leads[to], at)
		}
	}
	return nil
}

// skip notes that a repository cannot be understood: nothing of it is deleted.
func (r *run) skip(repo *repository, d oci.Digest, err error) {
	repo.mu.Lock()
	repo.unreadable = true
	repo.mu.Unlock()
	r.count(func(p *Report) {
		if !slices.ContainsFunc(p.Problems, func(p Problem) bool { return p.Repository == repo.name && p.Manifest == d }) {
			p.Problems = append(p.Problems, Problem{repo.name, d, err.Error()})
		}
	})
}

// maxManifest is more than any registry takes.
const maxManifest = 64 << 20

// readReferences reads a manifest, and proves it.
func (r *run) readReferences(ctx context.Context, d oci.Digest) (*references, error) {
	body, _, err := storage.Read(ctx, r.Store, layout.BlobData(d), maxManifest)
	if absent(err) {
		return nil, errors.New("its bytes are missing")
	}
	if err != nil {
		return nil, err
	}
	if d.Algorithm().FromBytes(body) != d {
		return nil, errors.New("its bytes are damaged")
	}
	read, err := oci.ReadReferences(body)
	if err != nil {
		return nil, err
	}
	refs := &references{hasSubject: read.Subject != "", needs: make([]id, 0, len(read.Needed)+len(read.Elsewhere))}
	for _, ref := range slices.Concat(read.Needed, read.Elsewhere) {
		refs.needs = append(refs.needs, r.digests.add(ref))
	}
	if refs.hasSubject {
		refs.subject = r.digests.add(read.Subject)
	}
	return refs, nil
}
