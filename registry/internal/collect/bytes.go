package collect

import (
	"context"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// collectBytes deletes the bytes to which no link leads.
func (r *run) collectBytes(ctx context.Context) error {
	g := r.group(ctx)
	g.here(func(ctx context.Context) error {
		for _, alg := range tree.Algorithms() {
			root := layout.Blobs + "/" + string(alg)
			for info, err := range r.Store.List(ctx, root, storage.ListOptions{Names: true}) {
				if err != nil {
					return err
				}
				if prefix := strings.TrimSuffix(info.Key, "/"); info.Prefix && len(prefix) == len(root)+3 {
					g.do(func(ctx context.Context) error { return r.collectPrefix(ctx, prefix, alg) })
				}
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return r.deleteWaiting(ctx)
}

// collectPrefix looks at the bytes below a prefix: the first two hex digits.
func (r *run) collectPrefix(ctx context.Context, prefix string, alg oci.Algorithm) error {
	var all []garbage
	for o, err := range r.objects(ctx, prefix, "/data", alg) {
		if err != nil {
			return err
		}
		i := r.digests.add(o.digest)
		if r.digests.why(i) == 0 && r.evidence(ctx, o) {
			r.digests.mark(recent, i)
		}
		if !r.keepBytes(i, o.Size) {
			all = append(all, garbage{kind: OldBlob, id: i, size: o.Size})
		}
	}
	for some := range slices.Chunk(all, perList) {
		if err := r.delete(ctx, &part{all: some}, len(some)); err != nil {
			return err
		}
	}
	return nil
}

// keepBytes says whether bytes stay, and counts them then.
func (r *run) keepBytes(i id, size int64) bool {
	why := r.digests.why(i)
	if why != 0 {
		r.count(func(p *Report) { p.keep(why, size) })
	}
	return why != 0
}

// readMarks marks what writers have linked while the run was under way: they leave
// a mark for it before they put a link.
func (r *run) readMarks(ctx context.Context) error {
	for _, alg := range tree.Algorithms() {
		for o, err := range r.list(ctx, layout.LinkedBy(r.name)+"/"+string(alg), "", alg, storage.ListOptions{Flat: true, Names: true}) {
			if err != nil {
				return err
			}
			if i := r.digests.add(o.digest); r.digests.why(i) == 0 {
				r.digests.mark(recent, i)
			}
		}
	}
	return nil
}

// removeMarks removes the marks for this run and for those that died.
func (r *run) removeMarks(ctx context.Context) error {
	var marks storage.Stage
	for info, err := range r.Store.List(ctx, layout.Links, storage.ListOptions{Flat: true, Names: true}) {
		if err != nil {
			return err
		}
		marks = append(marks, storage.Change{Key: info.Key, Delete: true})
	}
	if len(marks) == 0 {
		return nil
	}
	return r.apply(ctx, marks)
}
