package collect

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// sweepRepository marks what a repository needs and sets aside those of its
// links that nothing needs.
func (r *run) sweepRepository(ctx context.Context, repo *repository) error {
	repo.story.tell(Event{Kind: Repository, Repository: repo.name})
	if err := r.read(ctx, repo); err != nil {
		return err
	}
	tags, err := r.chooseRoots(ctx, repo)
	if err != nil {
		return err
	}
	r.spread(repo)
	why := needed
	if repo.troubled {
		why = withheld
	}
	r.need(repo, why)
	r.count(repo)
	r.tellRepository(repo)
	if err := r.sweepRevisions(ctx, repo); err != nil {
		return err
	}
	if err := r.sweepLayers(ctx, repo); err != nil {
		return err
	}
	if err := r.tidyTags(ctx, repo, tags); err != nil {
		return err
	}
	return r.tidyRepository(ctx, repo.name)
}

// count adds up the manifests. Those that are set aside are taken off later.
func (r *run) count(repo *repository) {
	live := int64(0)
	for i := range repo.revisions {
		if repo.revisions[i].live {
			live++
		}
	}
	r.book(func(p *Report) {
		p.Repositories++
		p.Manifests.Found += int64(len(repo.revisions))
		p.Manifests.Kept += live
		p.Manifests.Freed += int64(len(repo.revisions)) - live
	})
}

// chooseRoots marks the manifests from which the others are reached: all of
// them, unless untagged ones are to go. It returns what the tags point at.
func (r *run) chooseRoots(ctx context.Context, repo *repository) (tags []tag, err error) {
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		rev.live = !r.DeleteUntagged || repo.troubled || r.relied(rev.changed)
	}
	if !r.DeleteUntagged {
		return nil, nil
	}
	tags, err = r.tags(ctx, repo)
	repo.reachTagged(tags)
	return tags, err
}

// sweepRevisions sets aside the manifests that nothing leads to.
func (r *run) sweepRevisions(ctx context.Context, repo *repository) error {
	crew := r.crew(ctx)
	for i := range repo.revisions {
		if rev := &repo.revisions[i]; !rev.live {
			crew.do(func(ctx context.Context) error { return r.sweepRevision(ctx, repo, rev) })
		}
	}
	return crew.wait()
}

func (r *run) sweepRevision(ctx context.Context, repo *repository, rev *revision) error {
	d := r.digests.digest(rev.id)
	dir := layout.Revisions(repo.name, d.Algorithm())
	r.flushLater(dir)
	repo.story.tell(Event{Kind: OldManifest, Repository: repo.name, Digest: d})
	if r.DryRun {
		return nil
	}
	moved, err := r.setAside(ctx, layout.RevisionLink(repo.name, d), rev.changed)
	if err != nil {
		return err
	}
	if !moved {
		rev.live = true
		r.book(func(p *Report) { p.Manifests.Kept++; p.Manifests.Freed-- })
		return nil
	}
	return r.tidy(ctx, dir+"/"+d.Hex())
}

// flushLater notes a directory that has to be flushed before any bytes go: no
// manifest may come back without them after a power loss.
func (r *run) flushLater(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush[dir] = struct{}{}
}

// flushRevisions flushes the directories that manifests were taken out of.
func (r *run) flushRevisions(ctx context.Context) error {
	var dirs []string
	for dir := range r.flush {
		dirs = append(dirs, dir, layout.AsideDir(dir))
	}
	return r.Driver.Flush(ctx, dirs...)
}

// sweepLayers sets aside the repository's links to blobs that neither a manifest
// of it needs nor a client relies on.
func (r *run) sweepLayers(ctx context.Context, repo *repository) error {
	crew := r.crew(ctx)
	for _, alg := range algorithms {
		crew.try(func(ctx context.Context) error {
			return r.eachDigest(ctx, layout.Layers(repo.name, alg), alg, ofDir, func(d oci.Digest) error {
				i, known := r.digests.find(d)
				here := known && repo.needsBlob(i)
				if !here || alg != oci.SHA256 {
					crew.do(func(ctx context.Context) error { return r.sweepLayer(ctx, repo, d, here) })
				}
				return nil
			})
		})
	}
	return crew.wait()
}

func (r *run) sweepLayer(ctx context.Context, repo *repository, d oci.Digest, here bool) error {
	path := layout.LayerLink(repo.name, d)
	if !here && !repo.troubled && r.anyAge {
		if alone, err := r.removeAlone(ctx, path); err != nil {
			return err
		} else if alone { // nobody relies on it, whenever it came: there is nothing to look for
			repo.story.tell(Event{Kind: OldLayer, Repository: repo.name, Digest: d})
			return r.layerGone(ctx, repo, d)
		}
	}
	info, err := r.Driver.Stat(ctx, path)
	if absent(err) {
		return r.tidy(ctx, layout.Layers(repo.name, d.Algorithm())+"/"+d.Hex())
	}
	if err != nil {
		return err
	}
	switch {
	case here:
		return r.keepLayer(ctx, d, path, needed)
	case repo.troubled:
		return r.keepLayer(ctx, d, path, withheld)
	case r.relied(info.Changed):
		return r.keepLayer(ctx, d, path, promised)
	}
	repo.story.tell(Event{Kind: OldLayer, Repository: repo.name, Digest: d})
	if r.DryRun {
		return nil
	}
	moved, err := r.setAside(ctx, path, info.Changed)
	if err != nil {
		return err
	}
	if !moved {
		return r.keepLayer(ctx, d, path, withheld)
	}
	return r.layerGone(ctx, repo, d)
}

// layerGone counts a link that is not in its place any more.
func (r *run) layerGone(ctx context.Context, repo *repository, d oci.Digest) error {
	r.book(func(p *Report) { p.LayerLinks++ })
	return r.tidy(ctx, layout.Layers(repo.name, d.Algorithm())+"/"+d.Hex())
}

// keepLayer notes that the bytes stay to which the link leads. That of sha256 is
// the one of its name; distribution makes links of other algorithms that lead
// elsewhere.
func (r *run) keepLayer(ctx context.Context, d oci.Digest, path string, why uint8) error {
	if d.Algorithm() != oci.SHA256 {
		target, err := r.link(ctx, path)
		if err == nil {
			r.digests.mark(r.digests.add(target), why)
		} else if !absent(err) && !errors.Is(err, layout.ErrBadLink) && !errors.Is(err, layout.ErrEmptyLink) {
			return err
		}
	}
	r.digests.mark(r.digests.add(d), why)
	return nil
}

// setAside moves a link aside, unless it changes meanwhile.
func (r *run) setAside(ctx context.Context, path string, changed time.Time) (moved bool, err error) {
	if alone, err := r.removeAlone(ctx, path); alone {
		return err == nil, err
	}
	moved, err = r.move(ctx, path)
	if err != nil || !moved {
		return false, err
	}
	info, err := r.Driver.Stat(ctx, layout.Aside(path))
	if absent(err) {
		return false, nil // somebody needs it
	}
	if err != nil || info.Changed.Equal(changed) {
		return true, err
	}
	return false, r.restore(ctx, path)
}

// move moves an object aside, over what a killed run may have left there. One
// for which there is no room stays until the next round.
func (r *run) move(ctx context.Context, path string) (moved bool, err error) {
	aside := layout.Aside(path)
	err = r.Driver.SetAside(ctx, path, aside)
	if errors.Is(err, driver.ErrExist) {
		if err = r.Driver.Discard(ctx, aside); err == nil {
			err = r.Driver.SetAside(ctx, path, aside)
		}
	}
	if absent(err) {
		return false, nil
	}
	if errors.Is(err, driver.ErrNoSpace) {
		r.book(func(p *Report) { p.NoRoom++ })
		return false, nil
	}
	return err == nil, err
}

// restore moves an object back, unless another one is there.
func (r *run) restore(ctx context.Context, path string) error {
	err := r.Driver.Restore(ctx, layout.Aside(path), path)
	if err == nil {
		r.book(func(p *Report) { p.Restored++ })
	}
	if absent(err) || errors.Is(err, driver.ErrExist) {
		return nil
	}
	return err
}

// tidyRepository removes the directories of a repository that are empty.
func (r *run) tidyRepository(ctx context.Context, name oci.Name) error {
	for _, alg := range algorithms {
		if err := r.tidy(ctx, layout.Revisions(name, alg), layout.Layers(name, alg)); err != nil {
			return err
		}
	}
	dir := layout.Repository(name)
	return r.tidy(ctx, layout.Manifests(name)+"/revisions", layout.Tags(name), layout.Manifests(name),
		dir+"/_layers", layout.Uploads(name))
}
