package tree

import (
	"context"
	"errors"
	"iter"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Deletion is the record of a deletion, as it is listed.
type Deletion struct {
	ID       string
	Until    time.Time  // it can be restored
	Manifest oci.Digest // the only one that was deleted, "" if there are none or several
	Key      string
	Size     int64
}

// Deletions yields the records of what was deleted from a repository, the earliest first, also
// of what can't be restored any more.
func Deletions(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Deletion, error] {
	return func(yield func(Deletion, error) bool) {
		prefix := layout.Deletions(name)
		for info, err := range s.List(ctx, prefix, storage.ListOptions{Flat: true}) {
			if err != nil {
				yield(Deletion{}, err)
				return
			}
			d := Deletion{Key: info.Key, Size: info.Size}
			var ok bool
			if d.ID, d.Until, d.Manifest, ok = layout.ParseDeletionName(info.Key[len(prefix)+1:]); ok && !yield(d, nil) {
				return
			}
		}
	}
}

// Read reads the record. Without an ID it is gone or malformed, and nothing can be restored by it. The error is a
// fault of the storage.
func (d *Deletion) Read(ctx context.Context, s storage.Store) (layout.Deletion, error) {
	content, _, err := storage.Read(ctx, s, d.Key, layout.MaxDeletion)
	if errors.Is(err, storage.ErrNotExist) || errors.Is(err, storage.ErrTooLarge) {
		return layout.Deletion{}, nil
	} else if err != nil {
		return layout.Deletion{}, err
	}
	record, _ := layout.ParseDeletion(d.ID, content) // the zero value if it is malformed
	return record, nil
}

// Deleted yields the repositories that have records of deletions. The repository itself may
// not exist any more.
func Deleted(ctx context.Context, s storage.Store) iter.Seq2[oci.Name, error] {
	w := walk{s, layout.Trash, possible}
	return func(yield func(oci.Name, error) bool) { w.below(ctx, "", yield) }
}
