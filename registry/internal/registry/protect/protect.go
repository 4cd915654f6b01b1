// Package protect keeps the tags that people have protected: until somebody lifts the protection,
// they are neither moved nor deleted. They are one document beside the trees, unknown to CNCF
// distribution and known to every process, so that a push asks memory alone.
package protect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/document"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Interval is how soon all replicas know of a change.
const Interval = 2 * time.Second

// ErrNotProtected means that there is no protection to lift.
var ErrNotProtected = errors.New("the tag is not protected")

// Protection is who protected a tag, and when.
type Protection struct {
	By string    `json:"by,omitempty"` // "" if nobody knows
	At time.Time `json:"at"`
}

// tags are protections by repository, a colon and the tag.
type tags map[string]Protection

// Tags are the protected tags. It is safe for concurrent use.
type Tags struct {
	kept *document.Document[tags]
	log  *zap.Logger
}

// New does no I/O: nothing is known to be protected until Refresh.
func New(store storage.Store, log *zap.Logger) *Tags {
	return &Tags{document.New[tags](store, layout.Protected), log}
}

// Refresh reads the protected tags if they have changed.
func (t *Tags) Refresh(ctx context.Context) error {
	if err := t.kept.Refresh(ctx); err != nil {
		return fmt.Errorf("cannot read the protected tags: %w", err)
	}
	return nil
}

// Watch keeps what is known current until ctx ends.
func (t *Tags) Watch(ctx context.Context) {
	document.Poll(ctx, Interval, t.log, "protected tags", t.Refresh)
}

// Of returns the protection of a tag, if it has one. It does no I/O.
func (t *Tags) Of(name oci.Name, tag oci.Tag) (p Protection, ok bool) {
	known, _ := t.kept.Last()
	if known == nil || len(*known) == 0 {
		return p, false
	}
	p, ok = (*known)[keyOf(name, tag)]
	return p, ok
}

// Protect protects a tag durably. One that is protected already stays as it is.
func (t *Tags) Protect(ctx context.Context, name oci.Name, tag oci.Tag, p Protection) error {
	return t.kept.Update(ctx, func(all *tags) error {
		if *all == nil {
			*all = tags{}
		}
		if _, ok := (*all)[keyOf(name, tag)]; !ok {
			(*all)[keyOf(name, tag)] = p
		}
		return nil
	})
}

// Lift ends the protection of a tag. ErrNotProtected.
func (t *Tags) Lift(ctx context.Context, name oci.Name, tag oci.Tag) error {
	return t.kept.Update(ctx, func(all *tags) error {
		if _, ok := (*all)[keyOf(name, tag)]; !ok {
			return ErrNotProtected
		}
		delete(*all, keyOf(name, tag))
		return nil
	})
}

func keyOf(name oci.Name, tag oci.Tag) string { return string(name) + ":" + string(tag) }
