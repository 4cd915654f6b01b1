package registry

import (
	"context"
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"encoding/hex"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// sharedListing lists the tags of a repository for all who wait for it.
type sharedListing struct {
	begun  bool
	wanted map[oci.Digest]bool
	found  map[oci.Tag]pointer
	err    error
	done   chan struct{} // closed when found and err are known
}

// sharePointers is pointingAt by a listing that begins afterwards. While one is under way in the
// repository, the next one gathers all digests that somebody looks for.
func (r Repository) sharePointers(ctx context.Context, d oci.Digest) (map[oci.Tag]pointer, error) {
	reg := r.reg
	reg.looking.Lock()
	before := reg.looks[r.name]
	l := before
	if first := l == nil || l.begun; first {
		l = &sharedListing{wanted: map[oci.Digest]bool{}, done: make(chan struct{})}
		reg.looks[r.name] = l
		go r.listShared(context.WithoutCancel(ctx), l, before)
	}
	l.wanted[d] = true
	reg.looking.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found := map[oci.Tag]pointer{}
	for tag, p := range l.found {
		if p.digest == d {
			found[tag] = p
		}
	}
	return found, l.err
}

// listShared makes a listing once the one before it, if there is one, has ended.
func (r Repository) listShared(ctx context.Context, l, before *sharedListing) {
	if before != nil {
		<-before.done
	}
	r.reg.looking.Lock()
	l.begun = true
	r.reg.looking.Unlock()
	l.found, l.err = r.listPointers(ctx, layout.Tags(r.name), func(d oci.Digest) bool { return l.wanted[d] })
	close(l.done)
	r.reg.looking.Lock()
	defer r.reg.looking.Unlock()
	if r.reg.looks[r.name] == l {
		delete(r.reg.looks, r.name)
	}
}

// listPointers finds the tags that point at what is wanted by a listing of what lies below: all tags,
// or one. Where that holds hashes of the links, and the history of a tag says what they may be hashes
// of, no link is read.
func (r Repository) listPointers(ctx context.Context, below string, wanted func(oci.Digest) bool) (map[oci.Tag]pointer, error) {
	found := map[oci.Tag]pointer{}
	var unsure []listedTag
	var now listedTag
	decide := func() {
		digest, sure := now.digest()
		switch {
		case now.link.Key == "":
		case !sure:
			unsure = append(unsure, now)
		case wanted(digest):
			found[now.tag] = pointer{version: now.link.Version, digest: digest, history: now.history}
		}
	}
	prefix := layout.Tags(r.name)
	for info, err := range r.reg.store.List(ctx, below, storage.ListOptions{Flat: true}) {
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
		if p.version != "" && wanted(p.digest) {
			p.history = unsure[i].history
			found[unsure[i].tag] = p
		}
	}
	return found, err
}

func anyDigest(oci.Digest) bool { return true }

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
