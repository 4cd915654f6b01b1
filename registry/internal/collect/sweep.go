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
func (r *run) sweepRepository(ctx context.Context, name oci.Name) error {
	r.tell(Event{Kind: Repository, Repository: name})
	repo, err := r.read(ctx, name)
	if err != nil {
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
	for _, alg := range algorithms {
		if err := r.sweepLayers(ctx, repo, alg); err != nil {
			return err
		}
	}
	if err := r.tidyTags(ctx, repo, tags); err != nil {
		return err
	}
	return r.tidyRepository(ctx, name)
}

// count adds up the manifests. Those that are set aside are taken off later.
func (r *run) count(repo *repository) {
	c := &r.report.Manifests
	r.report.Repositories++
	c.Found += int64(len(repo.revisions))
	for i := range repo.revisions {
		if repo.revisions[i].live {
			c.Kept++
		} else {
			c.Freed++
		}
	}
}

// chooseRoots marks the manifests from which the others are reached: all of
// them, unless untagged ones are to go. It returns what the tags point at.
func (r *run) chooseRoots(ctx context.Context, repo *repository) (map[oci.Tag]oci.Digest, error) {
	all := !r.DeleteUntagged || repo.troubled
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		rev.live = all || r.relied(rev.changed)
	}
	if !r.DeleteUntagged {
		return nil, nil
	}
	tags, err := r.tags(ctx, repo)
	for _, d := range tags {
		if i, ok := r.digests.find(d); ok {
			if at, ok := repo.index[i]; ok {
				repo.revisions[at].live = true
			}
		}
	}
	return tags, err
}

// tags reads where the tags point. One that cannot be read makes the repository
// one that is left alone.
func (r *run) tags(ctx context.Context, repo *repository) (map[oci.Tag]oci.Digest, error) {
	tags := map[oci.Tag]oci.Digest{}
	for e, err := range r.Driver.List(ctx, layout.Tags(repo.name), "") {
		if absent(err) {
			return tags, nil
		}
		if err != nil {
			return nil, err
		}
		tag, err := oci.ParseTag(e.Name)
		if err != nil || !e.Dir {
			continue
		}
		d, err := r.link(ctx, layout.TagCurrent(repo.name, tag))
		if absent(err) {
			continue // never had one, or is being deleted
		}
		if err != nil {
			r.trouble(repo, "", describe("tag "+e.Name, err))
			for i := range repo.revisions {
				repo.revisions[i].live = true
			}
			continue
		}
		tags[tag] = d
	}
	return tags, nil
}

// sweepRevisions sets aside the manifests that nothing leads to.
func (r *run) sweepRevisions(ctx context.Context, repo *repository) error {
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if rev.live {
			continue
		}
		r.flushLater(layout.Revisions(repo.name, rev.digest.Algorithm()))
		r.tell(Event{Kind: OldManifest, Repository: repo.name, Digest: rev.digest})
		if r.DryRun {
			continue
		}
		moved, err := r.setAside(ctx, layout.RevisionLink(repo.name, rev.digest), rev.changed)
		if err != nil {
			return err
		}
		if !moved {
			rev.live = true
			r.report.Manifests.Kept++
			r.report.Manifests.Freed--
			continue
		}
		if err := r.tidy(ctx, layout.Revisions(repo.name, rev.digest.Algorithm())+"/"+rev.digest.Hex()); err != nil {
			return err
		}
	}
	return nil
}

// flushLater notes a directory that has to be flushed before any bytes go: no
// manifest may come back without them after a power loss.
func (r *run) flushLater(dir string) {
	if n := len(r.flush); n == 0 || r.flush[n-2] != dir {
		r.flush = append(r.flush, dir, layout.AsideDir(dir))
	}
}

// sweepLayers sets aside the repository's links to blobs that neither a manifest
// of it needs nor a client relies on.
func (r *run) sweepLayers(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	dir := layout.Layers(repo.name, alg)
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := oci.ParseDigest(string(alg) + ":" + e.Name)
		if err != nil || !e.Dir {
			continue
		}
		if err := r.sweepLayer(ctx, repo, d); err != nil {
			return err
		}
	}
	return r.tidy(ctx, dir)
}

func (r *run) sweepLayer(ctx context.Context, repo *repository, d oci.Digest) error {
	i, known := r.digests.find(d)
	here := known && r.neededHere(i)
	if here && d.Algorithm() == oci.SHA256 {
		return nil
	}
	path := layout.LayerLink(repo.name, d)
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
	r.tell(Event{Kind: OldLayer, Repository: repo.name, Digest: d})
	if r.DryRun {
		return nil
	}
	moved, err := r.setAside(ctx, path, info.Changed)
	if err != nil || !moved {
		return err
	}
	r.report.LayerLinks++
	return r.tidy(ctx, layout.Layers(repo.name, d.Algorithm())+"/"+d.Hex())
}

// keepLayer notes that the bytes stay to which the link leads. That of sha256 is
// the one of its name; distribution makes links of other algorithms that lead
// elsewhere.
func (r *run) keepLayer(ctx context.Context, d oci.Digest, path string, why uint8) error {
	if d.Algorithm() != oci.SHA256 {
		target, err := r.link(ctx, path)
		if err == nil {
			r.digests.note(r.digests.add(target)).what |= why
		} else if !absent(err) && !errors.Is(err, layout.ErrBadLink) && !errors.Is(err, layout.ErrEmptyLink) {
			return err
		}
	}
	r.digests.note(r.digests.add(d)).what |= why
	return nil
}

// setAside moves a link aside, unless it changes meanwhile.
func (r *run) setAside(ctx context.Context, path string, changed time.Time) (moved bool, err error) {
	if r.direct() {
		err := r.Driver.Discard(ctx, path)
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

// move moves an object aside, over what a killed run may have left there.
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
	return err == nil, err
}

// restore moves an object back, unless another one is there.
func (r *run) restore(ctx context.Context, path string) error {
	err := r.Driver.Restore(ctx, layout.Aside(path), path)
	if err == nil {
		r.report.Restored++
	}
	if absent(err) || errors.Is(err, driver.ErrExist) {
		return nil
	}
	return err
}

// tidyTags removes from the histories of the tags what the repository has not
// any more.
func (r *run) tidyTags(ctx context.Context, repo *repository, tags map[oci.Tag]oci.Digest) error {
	if repo.troubled || r.DryRun {
		return nil
	}
	for tag, current := range tags {
		for _, alg := range algorithms {
			if err := r.tidyTag(ctx, repo, tag, current, alg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) tidyTag(ctx context.Context, repo *repository, tag oci.Tag, current oci.Digest, alg oci.Algorithm) error {
	dir := layout.TagHistory(repo.name, tag, alg)
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := oci.ParseDigest(string(alg) + ":" + e.Name)
		if err != nil || d == current || repo.has(r, d) {
			continue
		}
		if err := r.Driver.Discard(ctx, dir+"/"+e.Name); err != nil {
			return err
		}
		r.report.TagEntries++
	}
	return nil
}

// has says whether a live manifest of the repository has the digest.
func (repo *repository) has(r *run, d oci.Digest) bool {
	i, ok := r.digests.find(d)
	if !ok {
		return false
	}
	at, ok := repo.index[i]
	return ok && repo.revisions[at].live
}

// tidyRepository removes the directories of a repository that are empty, and
// with the last of them the repository.
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
