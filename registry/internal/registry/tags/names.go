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

// entry is what is known of a tag of a remote store.
type entry struct {
	key    string // its name and a slash, as listings have it and are sorted by
	linked bool   // it was seen with a link
}

func unlinked(names []entry) (n int) {
	for _, name := range names {
		if !name.linked {
			n++
		}
	}
	return n
}

// behind are those of the names that come behind at in a listing.
func behind(names []entry, at string) []entry {
	i, _ := slices.BinarySearchFunc(names, at, func(n entry, at string) int {
		if n.key <= at {
			return -1
		}
		return 1
	})
	return names[i:]
}

// keptNames are at most n names behind at that earlier pages have seen.
func (r repository) keptNames(at string, n int) []entry {
	kept, _ := r.names.Get(r.name)
	kept = behind(kept, at)
	return kept[:min(n, len(kept))]
}

// keepNames remembers what lies behind at, up to and with end, "" for the end of the listing.
func (r repository) keepNames(at, end string, names []entry) {
	kept, _ := r.names.Get(r.name)
	all := slices.Concat(kept[:len(kept)-len(behind(kept, at))], names)
	if end != "" {
		all = append(all, behind(kept, end)...)
	}
	weight := int64(200)
	for _, n := range all {
		weight += int64(len(n.key)) + 32
	}
	r.names.Put(r.name, all, weight)
}

// listNames lists at most n names behind at. Those seen with a link before are marked. What is
// remembered describes how that can be shared among requests.
func (r repository) listNames(ctx context.Context, at string, n int) ([]entry, error) {
	kept := r.keptNames(at, n)
	// One name more than there were shows that it was all.
	parts := max(1, (len(kept)+oneListing-2)/(oneListing-1))
	found := make([][]entry, parts)
	last := n - (parts-1)*len(kept)/parts
	err := r.store.Each(parts, func(i int) (err error) {
		from, to, most := at, "", last
		if i > 0 {
			from = kept[i*len(kept)/parts-1].key
		}
		if i < parts-1 {
			to, most = kept[(i+1)*len(kept)/parts-1].key, n
		}
		found[i], err = r.namesBetween(ctx, from, to, most)
		return err
	})
	names := slices.Concat(found...)
	if err != nil || len(names) >= n {
		return names[:min(n, len(names))], err
	}
	if len(found[parts-1]) < last {
		return names, nil
	}
	rest, err := r.listNames(ctx, names[len(names)-1].key, n-len(names))
	return append(names, rest...), err
}

// namesBetween lists at most n names behind at, up to and with end, "" for the end of the listing. Each
// request begins behind the last name: a store may prepare all of a listing that is gone on with.
func (r repository) namesBetween(ctx context.Context, at, end string, n int) (names []entry, err error) {
	prefix := layout.Tags(r.name) + "/"
	kept := r.keptNames(at, n)
	expected := n
	if end != "" {
		expected = len(kept) - len(behind(kept, end)) + 1
	}
	for more := true; more && len(names) < n; {
		more = false
		read, most := 0, min(n-len(names), oneListing)
		if left := expected - len(names); left > 0 { // else others have added names meanwhile
			most = min(most, left)
		}
		for info, err := range r.store.List(ctx, layout.Tags(r.name), storage.ListOptions{After: after(prefix, at), Names: true, Max: most}) {
			if err != nil {
				return nil, err
			}
			next := info.Key[len(prefix):]
			if end != "" && next > end {
				return names, nil
			}
			at = strings.Clone(next)
			name, ok := strings.CutSuffix(at, "/")
			if _, err := oci.ParseTag(name); err == nil && ok {
				now := entry{key: at}
				for len(kept) > 0 && kept[0].key < at {
					kept = kept[1:]
				}
				if len(kept) > 0 && kept[0].key == at {
					now = kept[0]
				}
				names = append(names, now)
			}
			if read++; read == most {
				more = true
				break
			}
		}
	}
	return names, nil
}

// after is the key below prefix that at stands for, "" for the beginning.
func after(prefix, at string) string {
	if at == "" {
		return ""
	}
	return prefix + at
}

// lookAt returns those of the names that have a link. It looks at those that were not
// seen with one.
func (r repository) lookAt(ctx context.Context, names []entry) (linked []entry, err error) {
	linked = slices.Clone(names)
	err = r.store.Each(len(linked), func(i int) error {
		if linked[i].linked {
			return nil
		}
		_, err := r.store.Stat(ctx, layout.TagCurrent(r.name, oci.Tag(strings.TrimSuffix(linked[i].key, "/"))))
		linked[i].linked = err == nil
		if errors.Is(err, storage.ErrNotExist) {
			return nil
		}
		return err
	})
	return slices.DeleteFunc(linked, func(n entry) bool { return !n.linked }), err
}

// linksBetween lists the tags with a link behind at, up to and with end. The names say how that
// can be shared among requests.
func (r repository) linksBetween(ctx context.Context, at, end string, names []entry) (linked []entry, err error) {
	parts := (len(names) + namesAtOnce - 1) / namesAtOnce
	bounds := []string{at}
	for i := 1; i < parts; i++ {
		bounds = append(bounds, names[i*len(names)/parts].key)
	}
	bounds = append(bounds, end)
	found := make([][]entry, parts)
	err = r.store.Each(parts, func(i int) (err error) {
		// Most tags have a link, one entry of history and a push record. One object more
		// proves that there are no others.
		page := min(3*(len(names)/parts+1)+1, oneListing)
		found[i], _, _, err = r.readLinks(ctx, bounds[i], bounds[i+1], page)
		return err
	})
	return slices.Concat(found...), err
}

// readLinks lists the tags with a link behind at, up to and with end, a page of objects per
// request, or where end is "" by one request. It says up to where it has read, and whether there
// may be more.
func (r repository) readLinks(ctx context.Context, at, end string, page int) (linked []entry, to string, more bool, err error) {
	prefix := layout.Tags(r.name) + "/"
	from := after(prefix, at)
	if name, ok := strings.CutSuffix(from, "/"); ok && at != "" {
		from = name + "0" // "0" follows "/"
	}
	to = at
	for again := true; again; {
		again = false
		read, history := 0, 0
		for info, err := range r.store.List(ctx, layout.Tags(r.name), storage.ListOptions{After: from, Flat: true, Names: true, Max: page}) {
			if err != nil {
				return nil, "", false, err
			}
			name, rest, _ := strings.Cut(info.Key[len(prefix):], "/")
			if end != "" && name+"/" > end {
				break
			}
			to = name + "/"
			if _, err := oci.ParseTag(name); err == nil && rest == layout.TagCurrentName {
				history = 0
				linked = append(linked, entry{strings.Clone(to), true})
			} else if history++; history > longHistory {
				from, again = prefix+name+"0", true
				break
			}
			if read++; read == page {
				if end == "" {
					return linked, to, true, nil
				}
				from, again = info.Key, true
				break
			}
		}
	}
	return linked, to, false, nil
}
