package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// deleteLater deletes the garbage of a repository, together with that of others.
func (r *run) deleteLater(ctx context.Context, repo *repository) error {
	n := len(repo.history)
	for _, rev := range repo.revisions {
		if !rev.live {
			n++
		}
	}
	for _, l := range repo.layers {
		if !l.live {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	r.mu.Lock()
	r.pending, r.waiting = append(r.pending, repo), r.waiting+n
	r.mu.Unlock()
	return r.deletePending(ctx, perDelete)
}

// deletePending deletes the waiting objects if there are more than that.
func (r *run) deletePending(ctx context.Context, more int) error {
	r.mu.Lock()
	repos, n := r.pending, r.waiting
	if n > more {
		r.pending, r.waiting = nil, 0
	}
	r.mu.Unlock()
	if n <= more {
		return nil
	}
	r.deleting.Lock()
	defer r.deleting.Unlock()
	if err := r.deleteRevisions(ctx, repos); err != nil {
		return err
	}
	if err := r.deleteLayers(ctx, repos); err != nil {
		return err
	}
	return r.deleteHistory(ctx, repos)
}

// deleteRevisions deletes manifests in waves, those first that no other garbage needs and whose subject isn't garbage: one that
// stays because it was renewed keeps what it needs and what refers to it. Where an index lists its own subject, neither can be
// first for both, and the index is.
func (r *run) deleteRevisions(ctx context.Context, repos []*repository) error {
	for {
		var infos []storage.Info
		var wave []func(kept map[string]bool)
		touched := map[*repository]bool{}
		for _, repo := range repos {
			for _, rev := range repo.firstGarbage() {
				infos, touched[repo] = append(infos, rev.info), true
				wave = append(wave, func(kept map[string]bool) { r.settleRevision(repo, rev, kept[rev.info.Key]) })
			}
		}
		if len(wave) == 0 {
			return nil
		}
		kept, err := r.remove(ctx, infos)
		if err != nil {
			return err
		}
		for _, settle := range wave {
			settle(kept)
		}
		for repo := range touched {
			if err := r.keepDeleted(ctx, repo); err != nil {
				return fmt.Errorf("repository %s: %w", repo.name, err)
			}
		}
	}
}

// firstGarbage returns the manifests that go before all others.
func (repo *repository) firstGarbage() (first []*revision) {
	needed := map[oci.Digest]bool{}
	for _, rev := range repo.revisions {
		for _, d := range rev.needs {
			needed[d] = needed[d] || !rev.live
		}
	}
	var unneeded []*revision
	for _, rev := range repo.revisions {
		if rev.live || needed[rev.digest] {
			continue
		}
		unneeded = append(unneeded, rev)
		if subject := repo.revisions[rev.subject]; subject == nil || subject.live {
			first = append(first, rev)
		}
	}
	if first == nil {
		return unneeded
	}
	return first
}

func (r *run) settleRevision(repo *repository, rev *revision, kept bool) {
	if kept {
		r.keepRevisions(repo, []*revision{rev})
		return
	}
	delete(repo.revisions, rev.digest)
	repo.graph = nil
	r.count(func(p *Report) { p.Manifests.Freed++; p.Manifests.Kept-- })
	r.emit(Event{Kind: OldManifest, Repository: repo.name, Digest: rev.digest})
}

// keepRevisions keeps manifests, what they need and what refers to them.
func (r *run) keepRevisions(repo *repository, all []*revision) {
	repo.spread(func(rev *revision) *bool { return &rev.live }, all)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rev := range repo.revisions {
		if rev.live {
			r.mark(repo, rev)
		}
	}
}

// deleteLayers deletes links to blobs.
func (r *run) deleteLayers(ctx context.Context, repos []*repository) error {
	var infos []storage.Info
	for _, repo := range repos {
		needed := repo.needed()
		for _, l := range repo.layers {
			if !l.live && needed[l.digest] { // by a manifest that was renewed meanwhile
				l.live = true
				r.mu.Lock()
				r.markLayer(repo, l)
				r.mu.Unlock()
			}
			if !l.live && !l.info.Modified.IsZero() {
				infos = append(infos, l.info)
			}
		}
	}
	kept, err := r.remove(ctx, infos)
	if err != nil {
		return err
	}
	for _, repo := range repos {
		for _, l := range repo.layers {
			switch {
			case l.live:
			case kept[l.info.Key]:
				r.mu.Lock()
				r.markLayer(repo, l)
				r.mu.Unlock()
			case !l.info.Modified.IsZero():
				r.count(func(p *Report) { p.LayerLinks++ })
				r.emit(Event{Kind: OldLayer, Repository: repo.name, Digest: l.digest})
			}
		}
	}
	return nil
}

// deleteHistory deletes tags that lead nowhere, and history that leads nowhere.
func (r *run) deleteHistory(ctx context.Context, repos []*repository) error {
	var infos []storage.Info
	for _, repo := range repos {
		for _, t := range repo.history {
			infos = append(infos, t.info)
		}
	}
	kept, err := r.remove(ctx, infos)
	if err != nil {
		return err
	}
	for _, repo := range repos {
		for _, t := range repo.history {
			if !kept[t.info.Key] {
				r.count(func(p *Report) { p.TagEntries++ })
				r.emit(Event{Kind: OldTag, Repository: repo.name, Digest: t.digest})
			}
		}
	}
	return nil
}

// garbageBytes are bytes below blobs that nothing needs.
type garbageBytes struct {
	digest oci.Digest
	info   storage.Info
}

// collectBytes deletes the bytes to which no link leads.
func (r *run) collectBytes(ctx context.Context) error {
	r.Progress.Enter("freeing unneeded blobs")
	g := r.group(ctx)
	for _, alg := range tree.Algorithms() {
		root := layout.Blobs + "/" + string(alg)
		for info, err := range r.Store.List(ctx, root, storage.ListOptions{Names: true}) {
			if err != nil {
				_ = g.Wait()
				return err
			}
			if prefix := strings.TrimSuffix(info.Key, "/"); info.Prefix && len(prefix) == len(root)+3 {
				g.do(func(ctx context.Context) error { return r.collectPrefix(ctx, prefix, alg) })
			}
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.deleteBytes(ctx, 0)
}

// collectPrefix looks at the bytes below a prefix: the first two hex digits.
func (r *run) collectPrefix(ctx context.Context, prefix string, alg oci.Algorithm) error {
	if n, err := strconv.ParseInt(prefix[len(prefix)-2:], 16, 0); err == nil && alg == oci.SHA256 {
		r.Progress.Percent.Store(n * 100 / 256)
	}
	cutoff := r.cutoff(0)
	for o, err := range r.objects(ctx, prefix, "/data", alg) {
		if err == nil && o.Modified.IsZero() {
			o.Info, err = r.Store.Stat(ctx, o.Key)
		}
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		r.Progress.Blobs.Add(1)
		r.Progress.Bytes.Add(o.Size)
		r.mu.Lock()
		why := r.marks.why(o.digest)
		if why == 0 && !o.Modified.Before(cutoff) {
			why = recent
		}
		if why == 0 {
			r.garbage = append(r.garbage, garbageBytes{o.digest, o.Info})
		} else {
			r.report.keep(why, o.Size)
		}
		r.mu.Unlock()
	}
	return r.deleteBytes(ctx, perDelete)
}

// deleteBytes deletes the waiting bytes if there are more than that many blobs.
func (r *run) deleteBytes(ctx context.Context, more int) error {
	r.mu.Lock()
	all := r.garbage
	if len(all) > more {
		r.garbage = nil
	}
	r.mu.Unlock()
	if len(all) <= more {
		return nil
	}
	infos := make([]storage.Info, len(all))
	for i := range all {
		infos[i] = all[i].info
	}
	r.deleting.Lock()
	defer r.deleting.Unlock()
	kept, err := r.remove(ctx, infos)
	if err != nil {
		return err
	}
	for _, b := range all {
		if kept[b.info.Key] {
			r.count(func(p *Report) { p.keep(recent, b.info.Size) })
			continue
		}
		r.count(func(p *Report) { p.free(b.info.Size) })
		r.emit(Event{Kind: OldBlob, Digest: b.digest})
	}
	return nil
}
