package quota

import (
	"context"
	"crypto/sha256"
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

// digest stands for a digest in a quarter of the memory.
type digest [sha256.Size]byte

func digestOf(d oci.Digest) digest { return sha256.Sum256([]byte(d)) }

// walk returns the sizes of what is linked under the prefix.
func (c *counter) walk(ctx context.Context) (map[digest]int64, error) {
	var before map[digest]int64
	if f := c.found.Load(); f != nil {
		before = f.sizes
	}
	found, unknown := map[digest]int64{}, map[digest]oci.Digest{}
	for name, err := range tree.Below(ctx, c.store, c.Prefix) {
		if err != nil {
			return nil, err
		}
		for d, err := range linked(ctx, c.store, name) {
			if err != nil {
				return nil, err
			}
			key := digestOf(d)
			if size, ok := before[key]; ok {
				found[key] = size
			} else {
				unknown[key] = d
			}
		}
	}
	if err := c.stat(ctx, unknown, found); err != nil {
		return nil, err
	}
	return found, nil
}

// stat finds the sizes of blobs. Links that lead nowhere count nothing.
func (c *counter) stat(ctx context.Context, unknown map[digest]oci.Digest, found map[digest]int64) error {
	type job struct {
		key    digest
		digest oci.Digest
	}
	jobs := make(chan job)
	var mu sync.Mutex
	var first error
	var workers sync.WaitGroup
	for range statsAtOnce {
		workers.Go(func() {
			for j := range jobs {
				info, err := c.store.Stat(ctx, layout.BlobData(j.digest))
				mu.Lock()
				switch {
				case err == nil:
					found[j.key] = info.Size
				case first == nil && !errors.Is(err, storage.ErrNotExist):
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for key, d := range unknown {
		jobs <- job{key, d}
	}
	close(jobs)
	workers.Wait()
	return first
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
