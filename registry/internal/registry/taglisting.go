package registry

import (
	"context"
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"encoding/hex"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// On a remote store tags are found by one flat listing of links instead of a request for
// each tag. Its pages hold some hundred tags.

const (
	currentLink = "current/link" // below a tag
	// longHistory is how many entries of a tag's history are read before the listing begins
	// anew behind them.
	longHistory = 500
	// maxLooked is how many names are looked at one by one to complete a page of tags.
	maxLooked = 64
)

// tagsAfter lists at most n tags (all, if n < 0) strictly after last, sorted bytewise, and
// says what the next page begins after. It reads no more of the listing than it needs.
func (r Repository) tagsAfter(ctx context.Context, n int, last string) (tags []string, next string, err error) {
	page := tagPage{repo: r, limit: n, last: last, names: []string{}}
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

// tagPage collects names of tags from a listing.
type tagPage struct {
	repo  Repository
	limit int // -1 for none
	last  string
	names []string
	key   string // up to which the listing was read
}

func (p *tagPage) read(ctx context.Context) error {
	if p.limit == 0 {
		return p.readOne(ctx)
	}
	prefix := layout.Tags(p.repo.name)
	after := ""
	if p.last != "" {
		after = prefix + "/" + p.last // before "last-1", whose name is greater
	}
	for again := true; again; {
		again = false
		history := 0
		for info, err := range p.repo.reg.store.List(ctx, prefix, storage.ListOptions{After: after, Flat: true, Names: true}) {
			if err != nil {
				return err
			}
			p.key = info.Key
			name, rest, _ := strings.Cut(info.Key[len(prefix)+1:], "/")
			if rest != currentLink {
				if history++; history > longHistory {
					after, again = prefix+"/"+name+"0", true // "0" follows "/"
					break
				}
				continue
			}
			history = 0
			if _, err := oci.ParseTag(name); err == nil && name > p.last {
				p.names = append(p.names, name)
			}
			if done, err := p.full(ctx); done || err != nil {
				return err
			}
		}
	}
	slices.Sort(p.names)
	return nil
}

// readOne finds out whether there is anything at all.
func (p *tagPage) readOne(ctx context.Context) error {
	one := tagPage{repo: p.repo, limit: 1}
	err := one.read(ctx)
	p.names = one.names
	return err
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
	found := make([]bool, len(missing))
	err := p.repo.reg.each(len(missing), func(i int) error {
		_, err := p.repo.reg.store.Stat(ctx, layout.TagCurrent(p.repo.name, missing[i]))
		found[i] = err == nil
		return unlessAbsent(err)
	})
	if err != nil {
		return false, err
	}
	for i, there := range found {
		if there {
			p.names = append(p.names, string(missing[i]))
		}
	}
	slices.Sort(p.names)
	return true, nil
}

// missing is what may still come in the listing and belongs on the page.
func (p *tagPage) missing() (missing []oci.Tag) {
	for _, name := range p.names[:p.limit+1] {
		for i := range len(name) {
			if name[i] != '-' && name[i] != '.' {
				continue
			}
			tag, err := oci.ParseTag(name[:i])
			if err != nil || name[:i] <= p.last || layout.TagCurrent(p.repo.name, tag) <= p.key || slices.Contains(missing, tag) {
				continue
			}
			missing = append(missing, tag)
		}
	}
	return missing
}

// listPointers is pointingAt by a listing. Where that holds hashes of the links, and the history
// of a tag says what they may be hashes of, no link is read.
func (r Repository) listPointers(ctx context.Context, d oci.Digest) (map[oci.Tag]pointer, error) {
	found := map[oci.Tag]pointer{}
	var unsure []listedTag
	var now listedTag
	decide := func() {
		digest, sure := now.digest()
		switch {
		case now.link.Key == "":
		case !sure:
			unsure = append(unsure, now)
		case d == "" || digest == d:
			found[now.tag] = pointer{version: now.link.Version, digest: digest, history: now.history}
		}
	}
	prefix := layout.Tags(r.name)
	for info, err := range r.reg.store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return nil, err
		}
		name, rest, _ := strings.Cut(info.Key[len(prefix)+1:], "/")
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		if tag != now.tag {
			decide()
			now = listedTag{tag: tag}
		}
		if rest == currentLink {
			now.link = info
		} else {
			now.history = append(now.history, info.Key)
		}
	}
	decide()
	read := make([]pointer, len(unsure))
	err := r.reg.each(len(unsure), func(i int) (err error) {
		read[i], err = r.readTag(ctx, unsure[i].tag)
		if isBadLink(err) {
			return nil
		}
		return unlessAbsent(err)
	})
	for i, p := range read {
		if p.version != "" && (d == "" || p.digest == d) {
			p.history = unsure[i].history
			found[unsure[i].tag] = p
		}
	}
	return found, err
}

// listedTag is what a listing has of a tag.
type listedTag struct {
	tag     oci.Tag
	link    storage.Info // Key "" = none
	history []string     // keys
}

// digest is what the link holds, if the listing tells.
func (t *listedTag) digest() (d oci.Digest, sure bool) {
	if t.link.MD5 == "" || t.link.Version == "" {
		return "", false
	}
	for _, key := range t.history {
		_, name, _ := strings.Cut(key, "/_manifests/tags/"+string(t.tag)+"/")
		d, ok := layout.ParseTagIndex(name)
		if sum := md5.Sum(layout.Link(d)); ok && hex.EncodeToString(sum[:]) == t.link.MD5 { //nolint:gosec // see above
			return d, true
		}
	}
	return "", false
}
