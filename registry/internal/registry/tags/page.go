package tags

import (
	"context"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
)

// On a remote store a page of tags is read from listings. A flat one shows which tags have a
// link, some hundred a request, and is all that a small repository needs. In a large one the names
// are listed, which costs a store an eighth of that, and only names that were not seen with a
// link before are looked at.

const (
	// longHistory is how many entries of a tag's history are read before the listing begins
	// again behind them.
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

// listRemote is List on a remote store. It reads no more of the listing than it needs.
func (r repository) listRemote(ctx context.Context, n int, last string) (tags []string, next string, err error) {
	p := page{repo: r, limit: n, last: last, at: last, names: []string{}}
	if err := p.read(ctx); err != nil {
		return nil, "", err
	}
	tags, next = Page(p.names, n, "")
	return tags, next, nil
}

// page collects the names of at least limit+1 tags, or of all that are left.
type page struct {
	repo  repository
	limit int // -1 for none
	last  string
	names []string
	at    string // up to which the listing was read: last, or a tag and a slash
}

func (p *page) read(ctx context.Context) error {
	step := p.step
	if _, large := p.repo.names.Get(p.repo.name); !large {
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

// firstStep reads what one request lists. If that is not enough, the repository is large.
func (p *page) firstStep(ctx context.Context) (more bool, err error) {
	linked, at, more, err := p.repo.readLinks(ctx, p.at, "", oneListing)
	if err != nil {
		return false, err
	}
	if more && (p.limit < 0 || len(linked) <= p.limit) {
		p.repo.keepNames(p.at, at, linked)
	}
	p.add(linked, at)
	return more, nil
}

// step looks at about as many names as the page lacks. Names are taken from the last page's
// look ahead if there are enough: then all links between them are listed.
func (p *page) step(ctx context.Context) (more bool, err error) {
	want := max(oneListing, len(p.repo.keptNames(p.at, view.AtOnce*oneListing)))
	if p.limit > 0 {
		want = min(2*oneListing, max(p.limit+1-len(p.names), maxUnknown))
	}
	if p.last != "" && p.at == p.last {
		want++ // last itself is listed again
	}
	names := p.repo.keptNames(p.at, want)
	more = true
	if len(names) < want || unlinked(names) <= maxUnknown {
		if names, err = p.repo.listNames(ctx, p.at, want); err != nil {
			return false, err
		}
		more = len(names) == want
	}
	if len(names) == 0 {
		p.repo.keepNames(p.at, "", nil)
		return false, nil
	}
	end := names[len(names)-1].key
	if unlinked(names) <= maxUnknown {
		names, err = p.repo.lookAt(ctx, names)
	} else {
		next := func() ([]entry, error) { return nil, nil }
		if more {
			next = view.Ahead(p.repo.store, func() ([]entry, error) { return p.repo.listNames(ctx, end, want) })
		}
		names, err = p.repo.linksBetween(ctx, p.at, end, names)
		if following, aheadErr := next(); aheadErr == nil && len(following) > 0 {
			p.repo.keepNames(end, following[len(following)-1].key, following)
		}
	}
	if err != nil {
		return false, err
	}
	upTo := end
	if !more {
		upTo = ""
	}
	p.repo.keepNames(p.at, upTo, names)
	p.add(names, end)
	return more, nil
}

// add puts tags on the page; the listing was read up to at.
func (p *page) add(linked []entry, at string) {
	for _, n := range linked {
		if name := strings.TrimSuffix(n.key, "/"); name > p.last {
			p.names = append(p.names, name)
		}
	}
	p.at = at
}

// full reports whether the page is complete, which is sorted then. The listing has "a-b/" before
// "a/", so a name may be missing that another one begins with.
func (p *page) full(ctx context.Context) (bool, error) {
	if p.limit < 0 || len(p.names) <= p.limit {
		return false, nil
	}
	slices.Sort(p.names)
	missing := p.missing()
	if len(missing) > maxLooked {
		return false, nil
	}
	found, err := p.repo.lookAt(ctx, missing)
	if err != nil {
		return false, err
	}
	p.add(found, p.at)
	slices.Sort(p.names)
	return true, nil
}

// missing is what may still come in the listing and belongs on the page.
func (p *page) missing() (missing []entry) {
	for _, name := range p.names[:p.limit+1] {
		for i := range len(name) {
			if name[i] != '-' && name[i] != '.' {
				continue
			}
			n := entry{key: name[:i] + "/"}
			if _, err := oci.ParseTag(name[:i]); err != nil || name[:i] <= p.last || n.key <= p.at || slices.Contains(missing, n) {
				continue
			}
			missing = append(missing, n)
		}
	}
	return missing
}
