package tags

import (
	"context"
	"errors"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// List lists at most n tags (all, if n < 0) strictly after last, sorted bytewise, and describes what
// the next page begins after, "" if this is the last one. On a remote store what has a prefix is a tag,
// as in distribution: the link of one that is being pushed or deleted may be missing. Nobody changes the slice.
func (x *Index) List(ctx context.Context, name oci.Name, n int, last string) (tags []string, next string, err error) {
	r := repository{x, name}
	switch {
	case n == 0:
		return []string{}, "", nil
	case x.store.Remote:
		tags, err = r.listRemote(ctx, n, last)
	default:
		tags, err = r.listLocal(ctx, n, last)
	}
	if err != nil {
		return nil, "", err
	}
	tags, next = Page(tags, n, "")
	return tags, next, nil
}

// Page is the page of a sorted list that List returns.
func Page(all []string, n int, last string) (tags []string, next string) {
	all = behind(all, last)
	if n < 0 || n >= len(all) {
		return all, ""
	}
	if n > 0 {
		next = all[n-1]
	}
	return all[:n:n], next
}

// behind are the sorted names after last.
func behind(names []string, last string) []string {
	i, found := slices.BinarySearch(names, last)
	if found {
		i++
	}
	return names[i:]
}

// listLocal returns the tags after last, one more than n if there are as many. A crash may leave an
// empty directory, so each link is looked for.
func (r repository) listLocal(ctx context.Context, n int, last string) ([]string, error) {
	all, err := r.store.Below(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, err
	}
	tags := []string{}
	for _, name := range behind(all.Names, last) {
		if n >= 0 && len(tags) > n {
			break
		}
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		switch _, err := r.store.Stat(ctx, layout.TagCurrent(r.name, tag)); {
		case err == nil:
			tags = append(tags, name)
		case !errors.Is(err, storage.ErrNotExist):
			return nil, err
		}
	}
	return tags, nil
}

// listRemote is listLocal on a remote store: it reads no more of the listing than it needs.
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
	for i := range at {
		tag, err := oci.ParseTag(at[:i])
		if at[i] != '-' && at[i] != '.' || at[:i] <= last || err != nil {
			continue
		}
		for _, err := range r.store.List(ctx, layout.Tag(r.name, tag), storage.ListOptions{Names: true, Max: 1}) {
			if err != nil {
				return nil, err
			}
			tags = append(tags, string(tag))
			break
		}
	}
	slices.Sort(tags)
	return tags, nil
}
