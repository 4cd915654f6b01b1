package tags

import (
	"context"
	"errors"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// List lists at most n tags (all, if n < 0) strictly after last, sorted bytewise, and describes what
// the next page begins after, "" if this is the last one. On a remote store everything with a prefix
// is a tag, as in distribution: the link of a tag that is being pushed or deleted may be missing. The
// caller must not modify the slice.
func (x *Index) List(ctx context.Context, name oci.Name, n int, last string) (tags []string, next string, err error) {
	r := repository{x, name}
	switch {
	case n == 0:
		return []string{}, "", nil
	case x.store.Remote:
		tags, err = r.listRemote(ctx, n, last)
	default:
		tags, err = r.listLocal(ctx)
	}
	if err != nil {
		return nil, "", err
	}
	tags, next = Page(tags, n, last)
	return tags, next, nil
}

// Page returns the page of a sorted list that List returns.
func Page(all []string, n int, last string) (tags []string, next string) {
	all = namesAfter(all, last)
	if n < 0 || n >= len(all) {
		return all, ""
	}
	if n > 0 {
		next = all[n-1]
	}
	return all[:n:n], next
}

// namesAfter returns the sorted names after last.
func namesAfter(names []string, last string) []string {
	i, found := slices.BinarySearch(names, last)
	if found {
		i++
	}
	return names[i:]
}

// list is the tags of a repository on files. It is shared and must not be modified.
type list struct {
	from  *tree.Listing // of the directory that holds them
	names []string      // those with a link
}

// listLocal returns all tags. A push writes a tag's history before its link, and a crash may leave an
// empty directory, so the link of each name is checked until it is found: a list of 10,000 tags would
// take 140 times as long otherwise.
func (r repository) listLocal(ctx context.Context) ([]string, error) {
	from, err := r.store.Below(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, err
	}
	if len(from.Names) == 0 {
		return []string{}, nil
	}
	old, _ := r.lists.Get(r.name)
	if old == nil {
		old = &list{}
	}
	if old.from == from && len(old.names) == len(from.Names) {
		return old.names, nil
	}
	now := &list{from: from, names: make([]string, 0, len(from.Names))}
	for _, name := range from.Names {
		_, found := slices.BinarySearch(old.names, name)
		if !found {
			if found, err = r.hasLink(ctx, name); err != nil {
				return nil, err
			}
		}
		if found {
			now.names = append(now.names, name)
		}
	}
	r.lists.Put(r.name, now, int64(200+24*len(now.names)))
	return now.names, nil
}

// unlist forgets the list of a repository on files if tag, which has no link, is in it: its deletion
// was interrupted.
func (x *Index) unlist(name oci.Name, tag oci.Tag) {
	if l, ok := x.lists.Get(name); ok {
		if _, listed := slices.BinarySearch(l.names, string(tag)); listed {
			x.lists.Forget(name)
		}
	}
}

// hasLink reports whether a name in the directory of tags is a tag with a link.
func (r repository) hasLink(ctx context.Context, name string) (bool, error) {
	tag, err := oci.ParseTag(name)
	if err != nil {
		return false, nil //nolint:nilerr // what no request can name isn't a tag
	}
	_, err = r.store.Stat(ctx, layout.TagCurrent(r.name, tag))
	if errors.Is(err, storage.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// listRemote returns the tags after last, one more than n if there are as many. It reads no more of the
// listing than it needs.
func (r repository) listRemote(ctx context.Context, n int, last string) ([]string, error) {
	prefix := layout.Tags(r.name) + "/"
	o := storage.ListOptions{Names: true}
	if last != "" {
		o.After = prefix + last
	}
	if n > 0 {
		o.Max = n + 2 // last itself, and one that shows that there is another page
	}
	tags, at := []string{}, ""
	for info, err := range r.store.List(ctx, layout.Tags(r.name), o) {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(info.Key[len(prefix):], "/")
		if _, err := oci.ParseTag(name); !ok || err != nil || name <= last {
			continue
		}
		tags = append(tags, strings.Clone(name))
		if n > 0 && len(tags) > n {
			at = tags[n]
			break
		}
	}
	// The listing has "a-b/" before "a/", so what the last name begins with may still come.
	var begins []oci.Tag
	for i := range at {
		if tag, err := oci.ParseTag(at[:i]); (at[i] == '-' || at[i] == '.') && at[:i] > last && err == nil {
			begins = append(begins, tag)
		}
	}
	found := make([]bool, len(begins))
	err := r.store.Each(len(begins), func(i int) error {
		for _, err := range r.store.List(ctx, layout.Tag(r.name, begins[i]), storage.ListOptions{Names: true, Max: 1}) {
			found[i] = err == nil
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, tag := range begins {
		if found[i] {
			tags = append(tags, string(tag))
		}
	}
	slices.Sort(tags)
	return tags, nil
}
