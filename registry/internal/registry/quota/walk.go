package quota

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/storage"
)

// statsAtOnce is how many sizes are asked for at the same time.
const statsAtOnce = 16

// walk returns the bytes that the storage has under the prefix, except those of the given
// uploads.
func (c *counter) walk(ctx context.Context, except map[string]bool) (int64, error) {
	var total atomic.Int64
	sizes, ctx := errgroup.WithContext(ctx)
	sizes.SetLimit(statsAtOnce)
	err := c.each(ctx, func(key string) {
		if except[key] {
			return
		}
		sizes.Go(func() error {
			info, err := c.store.Stat(ctx, key)
			if errors.Is(err, storage.ErrNotExist) { // a link to nothing, an upload without bytes
				return nil
			}
			total.Add(info.Size)
			return err
		})
	})
	err = cmp.Or(sizes.Wait(), err)
	return total.Load(), err
}

// each calls visit with the key of everything that counts. The uploads come first, because
// they turn into linked blobs.
func (c *counter) each(ctx context.Context, visit func(key string)) error {
	for name, err := range tree.Below(ctx, c.store, c.Prefix) {
		if err != nil {
			return err
		}
		uploads := layout.Uploads(name)
		for info, err := range c.store.List(ctx, uploads, storage.ListOptions{Names: true}) {
			if err != nil {
				return err
			}
			if info.Prefix {
				visit(layout.UploadData(name, info.Key[len(uploads)+1:len(info.Key)-1]))
			}
		}
		for d, err := range tree.Linked(ctx, c.store, name) {
			if err != nil {
				return err
			}
			visit(layout.BlobData(d))
		}
	}
	return nil
}
