package pageindex

import (
	"context"
	"errors"
	"strings"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// snapshot is a repository as it was read.
type snapshot struct {
	Repository               // without Blobs, Bytes and Own
	sizes      map[key]int64 // of the blobs and manifests that exist
}

// scan reads a repository: two listings, and the sizes of blobs that aren't known.
func (x *Index) scan(ctx context.Context, name oci.Name) (*snapshot, error) {
	s := &snapshot{Repository: Repository{Name: name, Read: time.Now()}, sizes: map[key]int64{}}
	var found []oci.Digest
	prefix := layout.Manifests(name)
	for info, err := range x.o.Store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return nil, err
		}
		rest := info.Key[len(prefix)+1:]
		if d, ok := layout.ParseRevisionLink(rest); ok {
			s.Manifests++
			found = append(found, d)
			if x.pulls != nil {
				if at, ok := x.pulls.Of(name, d); ok {
					s.Pulled = later(s.Pulled, at)
				}
			}
			continue
		}
		text, rest, _ := strings.Cut(strings.TrimPrefix(rest, "tags/"), "/")
		tag, err := oci.ParseTag(text)
		if err != nil {
			continue
		}
		if rest == layout.TagCurrentName {
			s.Tags++
		}
		if rest == layout.TagCurrentName || info.Key == layout.TagPushed(name, tag) {
			s.Pushed = later(s.Pushed, info.Modified.UTC())
		}
	}
	for link, err := range tree.ListLayers(ctx, x.o.Store, name) {
		if err != nil {
			return nil, err
		}
		if link.Err == nil {
			found = append(found, link.Target)
		}
	}
	return s, x.measure(ctx, found, s.sizes)
}

// measure finds the sizes of the blobs and manifests that exist. A digest fixes its size.
func (x *Index) measure(ctx context.Context, found []oci.Digest, sizes map[key]int64) error {
	var unknown []oci.Digest
	for _, d := range found {
		k := x.key(d)
		size, known := x.existing[k]
		if x.existing == nil {
			size, known = x.size(k)
		}
		if known {
			sizes[k] = size
		} else {
			unknown = append(unknown, d)
		}
	}
	limit := 1
	if x.o.Remote {
		limit = storage.AtOnce
	}
	measured := make([]int64, len(unknown)) // -1 = it doesn't exist
	err := storage.Each(len(unknown), limit, func(i int) error {
		info, err := x.o.Store.Stat(ctx, layout.BlobData(unknown[i]))
		if measured[i] = info.Size; errors.Is(err, storage.ErrNotExist) {
			measured[i], err = -1, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, d := range unknown {
		if measured[i] >= 0 {
			sizes[x.key(d)] = measured[i]
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
