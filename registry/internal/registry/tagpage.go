package registry

import (
	"context"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// On a remote store a page of tags is read from listings. A flat one shows which tags have a
// link, some hundred a request, and is all that a small repository needs. In a large one the names
// are listed, which costs a store an eighth of that, and only names that were not seen with a
// link before are looked at.

const (
	currentLink = "current/link" // below a tag
	// longHistory is how many entries of a tag's history are read before the listing begins
	// anew behind them.
	longHistory = 500
	// maxLooked is how many names are looked at one by one to complete a page of tags.
	maxLooked = 64
	// maxUnknown is how many names of a page are looked at one by one; more are listed.
	maxUnknown = 16
	// oneListing is how many objects most stores list by one request.
	oneListing = 1000
	// namesAtOnce is how many tags share a request that lists their links and history.
	namesAtOnce = 400
)

// tagsAfter lists at most n tags (all, if n < 0) strictly after last, sorted bytewise, and
// says what the next page begins after. It reads no more of the listing than it needs.
func (r Repository) tagsAfter(ctx context.Context, n int, last string) (tags []string, next string, err error) {
	page := tagPage{repo: r, limit: n, last: last, at: last, names: []string{}}
	if err := page.read(ctx); err != nil {
		return nil, "", fault(err)
	}
	if len(page.names) == 0 {
		list, err := r.noTags(ctx)
		if err != nil {
			return nil, "", err
		}
		return list.names, "", nil
	}
	if n == 0 {
		return []string{}, "", nil
	}
	if n > 0 && n < len(page.names) {
		next = page.names[n-1]
		page.names = page.names[:n:n]
	}
	return page.names, next, nil
}

// tagPage collects names of tags.
type tagPage struct {
	repo  Repository
	limit int // -1 for none
	last  string
	names []string
	at    string // up to which the listing was read: last, or a tag and a slash
}

func (p *tagPage) read(ctx context.Context) error {
	if p.limit == 0 {
		return p.readOne(ctx)
	}
	step := p.step
	if _, large := p.repo.reg.tagNames.get(p.repo.name); !large {
		step = p.firstStep
	}
	for {
		more, err := step(ctx)
		if err != nil {
			return err
		}
		if !more {
			slices.Sort(p.names)
			return nil
		}
		if done, err := p.full(ctx); done || err != nil {
			return err
		}
		step = p.step
	}
}

// readOne finds out whether there is anything at all.
func (p *tagPage) readOne(ctx context.Context) error {
	one := tagPage{repo: p.repo, limit: 1}
	err := one.read(ctx)
	p.names = one.names
	return err
}

// firstStep reads what one request lists. If that is not enough, the repository is large.
func (p *tagPage) firstStep(ctx context.Context) (more bool, err error) {
	linked, at, more, err := p.repo.readLinks(ctx, p.at, "", oneListing)
	if err != nil {
		return false, err
	}
	if more && (p.limit < 0 || len(linked) <= p.limit) {
		p.repo.keepTagNames(p.at, at, linked)
	}
	p.add(linked, at)
	return more, nil
}

// step looks at about as many names as the page lacks. Names are taken from the last page's
// look ahead if there are enough: then all links between them are listed.
func (p *tagPage) step(ctx context.Context) (more bool, err error) {
	want := max(oneListing, len(p.repo.keptTagNames(p.at, atOnce*oneListing)))
	if p.limit > 0 {
		want = min(2*oneListing, max(p.limit+1-len(p.names), maxUnknown))
	}
	if p.last != "" && p.at == p.last {
		want++ // last itself is listed again
	}
	names := p.repo.keptTagNames(p.at, want)
	more = true
	if len(names) < want || unlinked(names) <= maxUnknown {
		if names, err = p.repo.listTagNames(ctx, p.at, want); err != nil {
			return false, err
		}
		more = len(names) == want
	}
	if len(names) == 0 {
		p.repo.keepTagNames(p.at, "", nil)
		return false, nil
	}
	end := names[len(names)-1].key
	if unlinked(names) <= maxUnknown {
		names, err = p.repo.lookAtTags(ctx, names)
	} else {
		next := func() ([]tagName, error) { return nil, nil }
		if more {
			next = ahead(p.repo.reg, func() ([]tagName, error) { return p.repo.listTagNames(ctx, end, want) })
		}
		names, err = p.repo.linksBetween(ctx, p.at, end, names)
		if following, aheadErr := next(); aheadErr == nil && len(following) > 0 {
			p.repo.keepTagNames(end, following[len(following)-1].key, following)
		}
	}
	if err != nil {
		return false, err
	}
	upTo := end
	if !more {
		upTo = ""
	}
	p.repo.keepTagNames(p.at, upTo, names)
	p.add(names, end)
	return more, nil
}

// add puts tags on the page; the listing was read up to at.
func (p *tagPage) add(linked []tagName, at string) {
	for _, n := range linked {
		if name := strings.TrimSuffix(n.key, "/"); name > p.last {
			p.names = append(p.names, name)
		}
	}
	p.at = at
}

// full says whether the page is complete, which is sorted then. The listing has "a-b/" before
// "a/", so a name may be missing that another one begins with.
func (p *tagPage) full(ctx context.Context) (bool, error) {
	if p.limit < 0 || len(p.names) <= p.limit {
		return false, nil
	}
	slices.Sort(p.names)
	missing := p.missing()
	if len(missing) > maxLooked {
		return false, nil
	}
	found, err := p.repo.lookAtTags(ctx, missing)
	if err != nil {
		return false, err
	}
	p.add(found, p.at)
	slices.Sort(p.names)
	return true, nil
}

// missing is what may still come in the listing and belongs on the page.
func (p *tagPage) missing() (missing []tagName) {
	for _, name := range p.names[:p.limit+1] {
		for i := range len(name) {
			if name[i] != '-' && name[i] != '.' {
				continue
			}
			n := tagName{key: name[:i] + "/"}
			if _, err := oci.ParseTag(name[:i]); err != nil || name[:i] <= p.last || n.key <= p.at || slices.Contains(missing, n) {
				continue
			}
			missing = append(missing, n)
		}
	}
	return missing
}

// tagName is what is known of a tag of a remote store.
type tagName struct {
	key    string // its name and a slash, as listings have it and are sorted by
	linked bool   // it was seen with a link
}

func unlinked(names []tagName) (n int) {
	for _, name := range names {
		if !name.linked {
			n++
		}
	}
	return n
}

// behind are those of the names that come behind at in a listing.
func behind(names []tagName, at string) []tagName {
	i, _ := slices.BinarySearchFunc(names, at, func(n tagName, at string) int {
		if n.key <= at {
			return -1
		}
		return 1
	})
	return names[i:]
}

// keptTagNames are at most n names behind at that earlier pages have seen.
func (r Repository) keptTagNames(at string, n int) []tagName {
	kept, _ := r.reg.tagNames.get(r.name)
	kept = behind(kept, at)
	return kept[:min(n, len(kept))]
}

// keepTagNames remembers what lies behind at, up to and with end, "" for the end of the listing.
func (r Repository) keepTagNames(at, end string, names []tagName) {
	kept, _ := r.reg.tagNames.get(r.name)
	all := slices.Concat(kept[:len(kept)-len(behind(kept, at))], names)
	if end != "" {
		all = append(all, behind(kept, end)...)
	}
	weight := int64(200)
	for _, n := range all {
		weight += int64(len(n.key)) + 32
	}
	r.reg.tagNames.put(r.name, all, weight)
}

// listTagNames lists at most n names behind at. Those seen with a link before are marked. What is
// remembered says how that can be shared among requests.
func (r Repository) listTagNames(ctx context.Context, at string, n int) ([]tagName, error) {
	kept := r.keptTagNames(at, n)
	// One name more than there were shows that it was all.
	parts := max(1, (len(kept)+oneListing-2)/(oneListing-1))
	found := make([][]tagName, parts)
	last := n - (parts-1)*len(kept)/parts
	err := r.reg.each(parts, func(i int) (err error) {
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
	rest, err := r.listTagNames(ctx, names[len(names)-1].key, n-len(names))
	return append(names, rest...), err
}

// namesBetween lists at most n names behind at, up to and with end, "" for the end of the listing. Each
// request begins behind the last name: a store may prepare all of a listing that is gone on with.
func (r Repository) namesBetween(ctx context.Context, at, end string, n int) (names []tagName, err error) {
	prefix := layout.Tags(r.name) + "/"
	kept := r.keptTagNames(at, n)
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
		for info, err := range r.reg.store.List(ctx, layout.Tags(r.name), storage.ListOptions{After: after(prefix, at), Names: true, Max: most}) {
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
				now := tagName{key: at}
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

// lookAtTags returns those of the names that have a link. It looks at those that were not
// seen with one.
func (r Repository) lookAtTags(ctx context.Context, names []tagName) (linked []tagName, err error) {
	linked = slices.Clone(names)
	err = r.reg.each(len(linked), func(i int) error {
		if linked[i].linked {
			return nil
		}
		_, err := r.reg.store.Stat(ctx, layout.TagCurrent(r.name, oci.Tag(strings.TrimSuffix(linked[i].key, "/"))))
		linked[i].linked = err == nil
		return unlessAbsent(err)
	})
	return slices.DeleteFunc(linked, func(n tagName) bool { return !n.linked }), err
}

// linksBetween lists the tags with a link behind at, up to and with end. The names say how that
// can be shared among requests.
func (r Repository) linksBetween(ctx context.Context, at, end string, names []tagName) (linked []tagName, err error) {
	parts := (len(names) + namesAtOnce - 1) / namesAtOnce
	bounds := []string{at}
	for i := 1; i < parts; i++ {
		bounds = append(bounds, names[i*len(names)/parts].key)
	}
	bounds = append(bounds, end)
	found := make([][]tagName, parts)
	err = r.reg.each(parts, func(i int) (err error) {
		// Most tags have a link and one entry of history; one object more shows that it was all.
		page := min(2*(len(names)/parts+1)+1, oneListing)
		found[i], _, _, err = r.readLinks(ctx, bounds[i], bounds[i+1], page)
		return err
	})
	return slices.Concat(found...), err
}

// readLinks lists the tags with a link behind at, up to and with end, so many objects with each
// request, or where end is "" by one request. It says up to where it has read, and whether there
// may be more.
func (r Repository) readLinks(ctx context.Context, at, end string, page int) (linked []tagName, to string, more bool, err error) {
	prefix := layout.Tags(r.name) + "/"
	from := after(prefix, at)
	if name, ok := strings.CutSuffix(from, "/"); ok && at != "" {
		from = name + "0" // "0" follows "/"
	}
	to = at
	for again := true; again; {
		again = false
		read, history := 0, 0
		for info, err := range r.reg.store.List(ctx, layout.Tags(r.name), storage.ListOptions{After: from, Flat: true, Names: true, Max: page}) {
			if err != nil {
				return nil, "", false, err
			}
			name, rest, _ := strings.Cut(info.Key[len(prefix):], "/")
			if end != "" && name+"/" > end {
				break
			}
			to = name + "/"
			if _, err := oci.ParseTag(name); err == nil && rest == currentLink {
				history = 0
				linked = append(linked, tagName{strings.Clone(to), true})
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
