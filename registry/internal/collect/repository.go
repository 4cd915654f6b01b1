package collect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// revision is a manifest in a repository.
type revision struct {
	id       id
	modified time.Time // of its link
	tagged   bool      // a tag leads to it
	live     bool      // it stays
	young    bool
}

// layer is a link to a blob.
type layer struct {
	id       id
	other    bool // its digest is of another algorithm than sha256
	modified time.Time
	live     bool
	young    bool
}

// repository is what a look at one has found.
type repository struct {
	name      oci.Name
	revisions []revision // sorted by id
	referrers map[id][]int
	tags      []tag
	history   []tag
	layers    []layer // sorted by id
	needs     []id    // of live manifests, and their own, sorted
	users     users
	listed    map[string]bool // at the second look: the keys that may be deleted

	mu         sync.Mutex
	unreadable bool // it is skipped
}

// find is where in the revisions a manifest is.
func (repo *repository) find(i id) (at int, ok bool) {
	return slices.BinarySearchFunc(repo.revisions, i, func(rev revision, i id) int { return int(rev.id) - int(i) })
}

// needsBlob says whether a live manifest needs it, or is it.
func (repo *repository) needsBlob(i id) bool {
	_, ok := slices.BinarySearch(repo.needs, i)
	return ok
}

// unlisted says whether a manifest stays because it is not listed: writers rely on it
// and on all that it needs without waiting. It may have come since the first look.
func (repo *repository) unlisted(d oci.Digest) bool {
	return repo.listed != nil && !repo.listed[layout.RevisionLink(repo.name, d)]
}

// stays says whether anything of the repository does.
func (repo *repository) stays() bool {
	return slices.ContainsFunc(repo.revisions, func(rev revision) bool { return rev.live }) ||
		slices.ContainsFunc(repo.layers, func(l layer) bool { return l.live })
}

// linked says whether the repository has a link to a blob.
func (repo *repository) linked(i id) bool {
	_, ok := slices.BinarySearchFunc(repo.layers, i, func(l layer, i id) int { return int(l.id) - int(i) })
	return ok
}

// eachRepository calls f for every prefix that may be a repository, also by a name
// that only distribution takes (upper case in front, longer than ours). A prefix
// that cannot be listed ends the run: who knows what it needs.
func (r *run) eachRepository(ctx context.Context, f func(context.Context, *repository) error) error {
	g := r.group(ctx)
	g.try(func(ctx context.Context) error {
		for name, err := range tree.Everything(ctx, r.Store) {
			if err == nil {
				err = r.step(ctx)
			}
			if err != nil {
				return err
			}
			g.do(func(ctx context.Context) error { return f(ctx, &repository{name: name}) })
		}
		return nil
	})
	return g.wait()
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

// look reads a repository and decides what of it stays. It marks the digests of
// that.
func (r *run) look(ctx context.Context, repo *repository) error {
	if err := r.readRevisions(ctx, repo); err != nil {
		return err
	}
	if err := r.readTags(ctx, repo); err != nil {
		return err
	}
	if err := r.readLayers(ctx, repo); err != nil {
		return err
	}
	if err := r.decide(ctx, repo); err != nil {
		return err
	}
	return r.mark(ctx, repo)
}

// readRevisions finds the manifests of a repository and what they need.
func (r *run) readRevisions(ctx context.Context, repo *repository) error {
	for _, alg := range tree.Algorithms() {
		for l, err := range r.links(ctx, layout.Revisions(repo.name, alg), alg) {
			if err != nil {
				return err
			}
			modified, err := r.age(ctx, l.Info, l.digest)
			if err != nil {
				return err
			}
			i := r.digests.add(l.digest)
			r.digests.mark(i, isRevision)
			repo.revisions = append(repo.revisions, revision{id: i, modified: modified})
		}
	}
	slices.SortFunc(repo.revisions, func(a, b revision) int { return int(a.id) - int(b.id) })
	g := r.group(ctx)
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if _, known := r.digests.references(rev.id); !known {
			g.do(func(ctx context.Context) error { return r.readRevision(ctx, repo, rev.id) })
		}
	}
	if err := g.wait(); err != nil {
		return err
	}
	repo.referrers = map[id][]int{}
	for i := range repo.revisions {
		if refs, _ := r.digests.references(repo.revisions[i].id); refs.hasSubject {
			repo.referrers[refs.subject] = append(repo.referrers[refs.subject], i)
		}
	}
	return nil
}

// readRevision reads a manifest. A repository with one that cannot be read is
// skipped.
func (r *run) readRevision(ctx context.Context, repo *repository, i id) error {
	d := r.digests.digest(i)
	refs, err := r.references(ctx, d)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.skip(repo, d, err)
	default:
		r.digests.refer(i, refs)
	}
	return r.step(ctx)
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

// readLayers finds the links to blobs. While their ages do not matter, their names
// are enough.
func (r *run) readLayers(ctx context.Context, repo *repository) error {
	list := r.links
	if !r.ages() {
		list = r.names
	}
	for _, alg := range tree.Algorithms() {
		for l, err := range list(ctx, layout.Layers(repo.name, alg), alg) {
			if err != nil {
				return err
			}
			repo.layers = append(repo.layers, layer{id: r.digests.add(l.digest), other: alg != oci.SHA256, modified: l.Modified})
		}
	}
	slices.SortFunc(repo.layers, func(a, b layer) int { return int(a.id) - int(b.id) })
	return nil
}

// link is a listed link.
type link struct {
	digest oci.Digest
	storage.Info
}

// objects yields the objects below a prefix that are named by digests: links, or bytes.
// Who is exclusive is so on files, where a look at each costs less than a listing of
// what is below each.
func (r *run) objects(ctx context.Context, prefix, suffix string, alg oci.Algorithm) func(yield func(link, error) bool) {
	if r.exclusive == nil {
		return r.list(ctx, prefix, suffix, alg, storage.ListOptions{Flat: true})
	}
	return func(yield func(link, error) bool) {
		for l, err := range r.names(ctx, prefix, alg) {
			if err == nil {
				l.Info, err = r.Store.Stat(ctx, prefix+"/"+l.digest.Hex()+suffix)
			}
			if absent(err) {
				continue
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// links yields the links below a prefix that are named by digests.
func (r *run) links(ctx context.Context, prefix string, alg oci.Algorithm) func(yield func(link, error) bool) {
	return r.objects(ctx, prefix, "/link", alg)
}

// names yields the digests below a prefix, whether or not there is a link.
func (r *run) names(ctx context.Context, prefix string, alg oci.Algorithm) func(yield func(link, error) bool) {
	return r.list(ctx, prefix, "/", alg, storage.ListOptions{Names: true})
}

func (r *run) list(ctx context.Context, prefix, suffix string, alg oci.Algorithm, o storage.ListOptions) func(yield func(link, error) bool) {
	return func(yield func(link, error) bool) {
		for info, err := range r.Store.List(ctx, prefix, o) {
			if err == nil {
				err = r.step(ctx)
			}
			if err != nil {
				yield(link{}, err)
				return
			}
			hex, ok := strings.CutSuffix(info.Key[len(prefix)+1:], suffix)
			if !ok {
				continue
			}
			if d, err := oci.ParseDigest(string(alg) + ":" + hex); err == nil && !yield(link{d, info}, nil) {
				return
			}
		}
	}
}
