package quota

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// statsAtOnce is how many sizes are asked for at the same time.
const statsAtOnce = 16

// walk returns the sizes of what is linked under the prefix.
func (c *counter) walk(ctx context.Context) (sizes, error) {
	var before sizes
	if f := c.found.Load(); f != nil {
		before = f.sizes
	}
	found := &measuring{sizes: map[key]int64{}}
	jobs := make(chan oci.Digest)
	var workers sync.WaitGroup
	for range statsAtOnce {
		workers.Go(func() {
			for d := range jobs {
				info, err := c.store.Stat(ctx, layout.BlobData(d))
				found.measured(c.keys.of(d), info.Size, err)
			}
		})
	}
	err := c.walkLinks(ctx, func(d oci.Digest) error {
		k := c.keys.of(d)
		if size, ok := before.of(k); ok {
			found.measured(k, size, nil)
			return nil
		}
		isNew, err := found.begin(k)
		if isNew {
			jobs <- d
		}
		return err
	})
	close(jobs)
	workers.Wait()
	if err = cmp.Or(found.err, err); err != nil {
		return sizes{}, err
	}
	return sizesOf(found.sizes), nil
}

// walkLinks calls visit with what each link under the prefix leads to.
func (c *counter) walkLinks(ctx context.Context, visit func(oci.Digest) error) error {
	for name, err := range tree.Below(ctx, c.store, c.Prefix) {
		if err != nil {
			return err
		}
		for d, err := range linked(ctx, c.store, name) {
			if err == nil {
				err = visit(d)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// measuring is sizes that are being found.
type measuring struct {
	mu    sync.Mutex
	sizes map[key]int64 // 0 while it is not known
	err   error         // the first one
}

// begin says whether the size is still to be asked for; the error is that of a size that
// could not be.
func (m *measuring) begin(k key) (isNew bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.sizes[k]; ok || m.err != nil {
		return false, m.err
	}
	m.sizes[k] = 0
	return true, nil
}

// measured takes a size. Links that lead nowhere count nothing.
func (m *measuring) measured(k key, size int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.sizes[k] = size
	case errors.Is(err, storage.ErrNotExist):
		delete(m.sizes, k)
	case m.err == nil:
		m.err = err
	}
}

// linked yields what the links of a repository lead to: blobs and manifests. Links that
// cannot be read are left out.
func linked(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[oci.Digest, error] {
	return func(yield func(oci.Digest, error) bool) {
		for _, alg := range tree.Algorithms() {
			for _, dir := range []string{layout.Layers(name, alg), layout.Revisions(name, alg)} {
				for info, err := range s.List(ctx, dir, storage.ListOptions{Flat: true}) {
					if err != nil {
						yield("", err)
						return
					}
					d, ok := target(ctx, s, info, alg, dir)
					if ok && !yield(d, nil) {
						return
					}
				}
			}
		}
	}
}

// target is what a link leads to. Links are as long as their digest, so most need not be
// read.
func target(ctx context.Context, s storage.Store, info storage.Info, alg oci.Algorithm, dir string) (oci.Digest, bool) {
	const end = "/link"
	rest := info.Key[len(dir)+1:]
	if len(rest) <= len(end) || rest[len(rest)-len(end):] != end {
		return "", false
	}
	d, err := oci.ParseDigest(string(alg) + ":" + rest[:len(rest)-len(end)])
	if err != nil {
		return "", false
	}
	if info.Size == int64(len(d)) {
		return d, true
	}
	link, ok := tree.ReadLink(ctx, s, info.Key, d)
	return link.Target, ok && link.Err == nil
}
