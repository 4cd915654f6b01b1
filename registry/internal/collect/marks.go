package collect

import (
	"context"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// readMarks marks what writers have linked while the run was under way: they leave
// a mark for it before they put a link.
func (r *run) readMarks(ctx context.Context) error {
	for _, alg := range tree.Algorithms() {
		for l, err := range r.list(ctx, layout.LinkedBy(r.name)+"/"+string(alg), "", alg, storage.ListOptions{Flat: true, Names: true}) {
			if err != nil {
				return err
			}
			if i := r.digests.add(l.digest); r.digests.what(i) == 0 {
				r.digests.mark(i, recent)
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

// eachPrefix calls f, as tasks of g, for the prefixes that share blobs among them:
// the first two hex digits.
func (r *run) eachPrefix(ctx context.Context, g *group, f func(ctx context.Context, prefix string, alg oci.Algorithm) error) error {
	for _, alg := range tree.Algorithms() {
		root := layout.Blobs + "/" + string(alg)
		for info, err := range r.Store.List(ctx, root, storage.ListOptions{Names: true}) {
			if err != nil {
				return err
			}
			if prefix := strings.TrimSuffix(info.Key, "/"); info.Prefix && len(prefix) == len(root)+3 {
				g.do(func(ctx context.Context) error { return f(ctx, prefix, alg) })
			}
		}
	}
	return nil
}
