package tree

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Deletion is the record of a deletion, as it is listed.
type Deletion struct {
	ID    string
	Until time.Time // it can be restored
	Keys  []string  // of its parts
}

// Deletions yields the records of what was deleted from a repository, the earliest first, also
// of what can't be restored any more.
func Deletions(ctx context.Context, s storage.Store, name oci.Name) iter.Seq2[Deletion, error] {
	return func(yield func(Deletion, error) bool) {
		prefix := layout.Deletions(name)
		var now Deletion
		for info, err := range s.List(ctx, prefix, storage.ListOptions{Flat: true, Names: true}) {
			if err != nil {
				yield(Deletion{}, err)
				return
			}
			id, _, _ := strings.Cut(info.Key[len(prefix)+1:], "/")
			if id != now.ID {
				if now.ID != "" && !yield(now, nil) {
					return
				}
				_, until, ok := layout.ParseDeletionID(id)
				if now = (Deletion{}); !ok {
					continue
				}
				now = Deletion{ID: id, Until: until}
			}
			now.Keys = append(now.Keys, info.Key)
		}
		if now.ID != "" {
			yield(now, nil)
		}
	}
}

// Read reads the record. A part that is gone or can't be parsed is left out: nothing can be
// restored by it. The error is a fault of the storage.
func (d *Deletion) Read(ctx context.Context, s storage.Store) (whole layout.Deletion, err error) {
	for _, key := range d.Keys {
		content, _, err := storage.Read(ctx, s, key, layout.MaxDeletion)
		if errors.Is(err, storage.ErrNotExist) || errors.Is(err, storage.ErrTooLarge) {
			continue
		} else if err != nil {
			return layout.Deletion{}, err
		}
		if part, err := layout.ParseDeletion(d.ID, content); err == nil {
			whole.Add(part)
		}
	}
	return whole, nil
}

// Deleted yields the repositories that have records of deletions. The repository itself may
// not exist any more.
func Deleted(ctx context.Context, s storage.Store) iter.Seq2[oci.Name, error] {
	w := walk{s, layout.Trash, possible}
	return func(yield func(oci.Name, error) bool) { w.below(ctx, "", yield) }
}
