package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// link is a link of a repository to a manifest or to a blob.
type link struct {
	digest oci.Digest
	target oci.Digest   // where the bytes are: another digest, where distribution has linked it by another algorithm
	info   storage.Info // dated once it was described
	live   bool         // it stays
}

// revision is a manifest of a repository.
type revision struct {
	link
	needs      []oci.Digest
	subject    oci.Digest // "" if it has none
	tagged     bool       // a tag leads to it
	deleted    bool       // it has no link, but can be restored
	restorable bool       // a deletion that can be undone leads to it
}

// repository is the content of a repository that a run has read.
type repository struct {
	name      oci.Name
	revisions map[oci.Digest]*revision
	graph     *tree.Graph // of the revisions, once all are read
	layers    []*link
	history   []tagLink // of tags, and tags whose manifest is gone

	mu         sync.Mutex      // while manifests and tags are read
	pointers   []tagLink       // tags and where they point, "" without a link
	restorable []*revision     // that deletions which can be undone name
	deletions  map[string]bool // records of these that were read, by key
	unreadable bool            // it is skipped
}

// collectRepositories reads every prefix that may be a repository, also by a name
// that only distribution takes (upper case in front, longer than ours), and deletes their
// garbage. A prefix that cannot be listed ends the run: what it needs is unknown.
func (r *run) collectRepositories(ctx context.Context) error {
	g := r.group(ctx)
	for name, err := range tree.Everything(ctx, r.Store) {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		r.visited[name] = true
		g.do(func(ctx context.Context) error { return r.collectRepository(ctx, name) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := r.collectDeleted(ctx); err != nil {
		return err
	}
	return r.deletePending(ctx, 0)
}

func (r *run) collectRepository(ctx context.Context, name oci.Name) error {
	repo := &repository{name: name, revisions: map[oci.Digest]*revision{}, deletions: map[string]bool{}}
	if err := r.read(ctx, repo); err != nil {
		return fmt.Errorf("repository %s: %w", name, err)
	}
	if err := r.decide(ctx, repo); err != nil {
		return fmt.Errorf("repository %s: %w", name, err)
	}
	r.Progress.Repositories.Add(1)
	r.mu.Lock()
	r.report.Repositories++
	for _, rev := range repo.revisions {
		if !rev.deleted {
			r.report.Manifests.Found++
			r.report.Manifests.Kept++
		}
		if rev.live {
			r.mark(repo, rev)
		}
	}
	for _, l := range repo.layers {
		if l.live {
			r.markLayer(repo, l)
		}
	}
	r.mu.Unlock()
	r.tellKept(repo)
	return r.deleteLater(ctx, repo)
}

// read reads what a repository has. The order doesn't matter, but deletions come last.
func (r *run) read(ctx context.Context, repo *repository) error {
	if err := r.readTags(ctx, repo); err != nil {
		return err
	}
	revisions, err := r.readLinks(ctx, repo.name, layout.Revisions)
	if err != nil {
		return err
	}
	g := r.group(ctx)
	for _, l := range revisions {
		if l.info.Modified.IsZero() { // distribution leaves the directory of a deleted link
			if l.info, err = r.Store.Stat(ctx, l.info.Key); absent(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		rev := &revision{link: *l}
		repo.revisions[l.digest] = rev
		g.do(func(ctx context.Context) error {
			if err := r.readManifest(ctx, rev); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				r.skip(repo, rev.digest, err)
			}
			r.Progress.Manifests.Add(1)
			return r.pace.step(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := r.readDeletions(ctx, repo); err != nil {
		return err
	}
	repo.layers, err = r.readLinks(ctx, repo.name, layout.Layers)
	return err
}

// readLinks finds the links of a repository below a prefix for each algorithm.
func (r *run) readLinks(ctx context.Context, name oci.Name, prefix func(oci.Name, oci.Algorithm) string) (all []*link, err error) {
	for _, alg := range tree.Algorithms() {
		for o, err := range r.objects(ctx, prefix(name, alg), "/link", alg) {
			if err != nil {
				return nil, err
			}
			l := &link{digest: o.digest, target: o.digest, info: o.Info}
			if alg != oci.SHA256 {
				read, there := tree.ReadLink(ctx, r.Store, l.info.Key, "")
				switch {
				case !there || errors.Is(read.Err, layout.ErrBadLink) || errors.Is(read.Err, layout.ErrEmptyLink):
				case read.Err != nil:
					return nil, read.Err
				default:
					l.target = read.Target
				}
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// readManifest reads what a manifest needs, and proves its bytes.
func (r *run) readManifest(ctx context.Context, rev *revision) error {
	n, err := tree.ReadNode(ctx, r.Store, tree.Link{Digest: rev.digest})
	if err == nil {
		rev.needs, rev.subject = n.Needs, n.Subject
	}
	return err
}

// lost reports whether the bytes of a manifest aren't there, or not as they were.
func lost(err error) bool { return absent(err) || errors.Is(err, tree.ErrDamaged) }

// skip notes that a repository cannot be understood: nothing of it is deleted.
func (r *run) skip(repo *repository, d oci.Digest, err error) {
	repo.mu.Lock()
	repo.unreadable = true
	repo.mu.Unlock()
	r.count(func(p *Report) { p.Problems = append(p.Problems, Problem{repo.name, d, err.Error()}) })
}
