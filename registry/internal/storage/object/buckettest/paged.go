package buckettest

import (
	"context"

	"slipway/registry/internal/storage/object"
)

// Paged is a bucket whose server lists small pages, so that few objects make several.
type Paged struct {
	object.Bucket
	Page  int
	Mixes bool // delimited listings stay as they are: those of several pages are not in order
}

// List implements [object.Bucket].
func (b *Paged) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	whole := b.Mixes && o.Delimited
	if !whole && (o.Max == 0 || o.Max > b.Page) {
		o.Max = b.Page
	}
	return b.Bucket.List(ctx, prefix, o)
}
