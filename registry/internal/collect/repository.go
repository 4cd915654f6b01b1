package collect

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// revision is a manifest in a repository.
type revision struct {
	id      id
	aside   bool
	live    bool
	changed time.Time // of its link
}

// repository is what a look at one has found. Its manifests are sorted by id.
type repository struct {
	name      oci.Name
	revisions []revision
	referrers map[id][]int // into revisions, by subject
	needs     []id         // of the live manifests and their own, sorted
	story     *story

	mu       sync.Mutex
	troubled bool // it is left alone
}

// find is where in the revisions a manifest is.
func (repo *repository) find(i id) (at int, ok bool) {
	return slices.BinarySearchFunc(repo.revisions, i, func(rev revision, i id) int { return int(rev.id) - int(i) })
}

// add puts revisions among those that are there.
func (repo *repository) add(revs ...revision) {
	repo.revisions = append(repo.revisions, revs...)
	slices.SortFunc(repo.revisions, func(a, b revision) int { return int(a.id) - int(b.id) })
}

// needsBlob says whether a live manifest needs it, or is it.
func (repo *repository) needsBlob(i id) bool {
	_, ok := slices.BinarySearch(repo.needs, i)
	return ok
}

// eachRepository calls f for every directory that may be a repository, also by
// a name that only distribution takes (upper case in front, longer than ours),
// and removes those that are empty. A directory that cannot be listed ends the run:
// who knows what it needs.
func (r *run) eachRepository(ctx context.Context, f func(context.Context, *repository) error) error {
	crew := r.crew(ctx)
	crew.try(func(ctx context.Context) error { return r.walk(ctx, crew, "", f) })
	return crew.wait()
}

func (r *run) walk(ctx context.Context, crew *crew, name string, f func(context.Context, *repository) error) error {
	dir := layout.Repositories
	if name != "" {
		dir = layout.Repository(oci.Name(name))
	}
	private := false
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !e.Dir {
			continue
		}
		if layout.Private(e.Name) {
			private = true
			continue
		}
		child := strings.TrimPrefix(name+"/"+e.Name, "/")
		if !driver.ValidPath(layout.Repository(oci.Name(child))) {
			continue // no registry has made it
		}
		r.letIn()
		crew.do(func(ctx context.Context) error { return r.walk(ctx, crew, child, f) })
	}
	if private && name != "" {
		repo := &repository{name: oci.Name(name), story: &story{r: r}}
		defer repo.story.end()
		if err := f(ctx, repo); err != nil {
			return err
		}
	}
	return r.tidyUp(ctx, dir)
}

// tidyUp removes the directory of a repository if it is empty, and those above
// it that are empty then.
func (r *run) tidyUp(ctx context.Context, dir string) error {
	for ; dir != layout.Repositories; dir = path.Dir(dir) {
		if err := r.tidy(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// read finds the manifests of a repository and what they need.
func (r *run) read(ctx context.Context, repo *repository) error {
	for _, alg := range algorithms {
		if err := r.listRevisions(ctx, repo, alg); err != nil {
			return err
		}
	}
	repo.add() // sorts them
	crew := r.crew(ctx)
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if _, known := r.graph.get(rev.id); !known {
			crew.do(func(ctx context.Context) error { return r.readRevision(ctx, repo, rev.id) })
		}
	}
	if err := crew.wait(); err != nil {
		return err
	}
	repo.referrers = map[id][]int{}
	for i := range repo.revisions {
		if refs, _ := r.graph.get(repo.revisions[i].id); refs.hasSubject {
			repo.referrers[refs.subject] = append(repo.referrers[refs.subject], i)
		}
	}
	return nil
}

// readRevision reads a manifest. One that cannot be read makes the repository
// one that is left alone.
func (r *run) readRevision(ctx context.Context, repo *repository, i id) error {
	d := r.digests.digest(i)
	err := r.manifest(ctx, i, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.trouble(repo, d, err)
	}
	r.letIn()
	return r.pace.step(ctx)
}

func (r *run) listRevisions(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	dir := layout.Revisions(repo.name, alg)
	err := r.eachDigest(ctx, dir, alg, ofDir, func(d oci.Digest) error {
		info, err := r.Driver.Stat(ctx, layout.RevisionLink(repo.name, d))
		if absent(err) {
			return r.tidy(ctx, dir+"/"+d.Hex())
		}
		if err == nil {
			repo.revisions = append(repo.revisions, revision{id: r.digests.add(d), changed: info.Changed})
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.tidy(ctx, dir)
}

// trouble notes that the repository cannot be understood and is left alone.
func (r *run) trouble(repo *repository, d oci.Digest, err error) {
	repo.mu.Lock()
	repo.troubled = true
	repo.mu.Unlock()
	r.mu.Lock()
	known := slices.ContainsFunc(r.report.Problems, func(p Problem) bool { return p.Repository == repo.name && p.Manifest == d })
	if !known {
		r.report.Problems = append(r.report.Problems, Problem{repo.name, d, err.Error()})
	}
	r.mu.Unlock()
	if !known {
		repo.story.tell(Event{Kind: LeftAlone, Repository: repo.name, Digest: d, Err: err})
	}
}

// spread marks as live what the live manifests lead to: what they need, their
// subjects, and the manifests whose subject they are.
func (r *run) spread(repo *repository) {
	var todo []int
	reach := func(i int) {
		if !repo.revisions[i].live {
			repo.revisions[i].live = true
			todo = append(todo, i)
		}
	}
	for i := range repo.revisions {
		if repo.revisions[i].live {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		rev := &repo.revisions[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		for _, i := range repo.referrers[rev.id] {
			reach(i)
		}
		refs, _ := r.graph.get(rev.id)
		for _, ref := range refs.needs {
			if i, ok := repo.find(ref); ok {
				reach(i)
			}
		}
		if i, ok := repo.find(refs.subject); ok && refs.hasSubject {
			reach(i)
		}
	}
}

// need notes that the live manifests of the repository, and all that they need,
// stay.
func (r *run) need(repo *repository, why uint8) {
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if rev.live {
			refs, _ := r.graph.get(rev.id)
			repo.needs = append(append(repo.needs, rev.id), refs.needs...)
		}
	}
	slices.Sort(repo.needs)
	repo.needs = slices.Compact(repo.needs)
	for _, i := range repo.needs {
		r.digests.mark(i, why)
	}
}
