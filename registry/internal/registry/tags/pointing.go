package tags

import (
	"context"
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"encoding/hex"
	"errors"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// All finds all tags, including those whose link holds no digest.
func (x *Index) All(ctx context.Context, name oci.Name) (map[oci.Tag]Pointer, error) {
	return x.Pointing(ctx, name, anyDigest)
}

// Pointing finds the tags that point at what is wanted.
func (x *Index) Pointing(ctx context.Context, name oci.Name, wanted func(oci.Digest) bool) (map[oci.Tag]Pointer, error) {
	r := repository{x, name}
	if r.store.Remote {
		return r.listPointers(ctx, layout.Tags(r.name), wanted)
	}
	return r.readPointers(ctx, wanted)
}

func anyDigest(oci.Digest) bool { return true }

// readPointers finds the tags that point at what is wanted by reading each.
func (r repository) readPointers(ctx context.Context, wanted func(oci.Digest) bool) (map[oci.Tag]Pointer, error) {
	all, err := r.store.Below(ctx, layout.Tags(r.name))
	if err != nil {
		return nil, err
	}
	found := map[oci.Tag]Pointer{}
	for _, name := range all.Names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		p, err := r.Read(ctx, r.name, tag)
		switch {
		case errors.Is(err, storage.ErrNotExist):
		case err != nil && !IsBadLink(err):
			return nil, err
		case wanted(p.Digest):
			found[tag] = p
		}
	}
	return found, nil
}

// listPointers finds the tags that point at what is wanted by a listing of what lies below: all tags,
// or one. Where that holds hashes of the links, and the history of a tag describes what they may be hashes
// of, no link is read.
func (r repository) listPointers(ctx context.Context, below string, wanted func(oci.Digest) bool) (map[oci.Tag]Pointer, error) {
	found := map[oci.Tag]Pointer{}
	var unsure []listed
	var now listed
	decide := func() {
		digest, sure := now.digest()
		switch {
		case now.link.Key == "":
		case !sure:
			unsure = append(unsure, now)
		case wanted(digest):
			found[now.tag] = Pointer{Version: now.link.Version, Digest: digest, History: now.history}
		}
	}
	prefix := layout.Tags(r.name)
	for info, err := range r.store.List(ctx, below, storage.ListOptions{Flat: true}) {
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
			now = listed{tag: tag}
		}
		if rest == layout.TagCurrentName {
			now.link = info
		} else {
			now.history = append(now.history, info.Key)
		}
	}
	decide()
	read := make([]Pointer, len(unsure))
	err := r.store.Each(len(unsure), func(i int) (err error) {
		read[i], err = r.Read(ctx, r.name, unsure[i].tag)
		if IsBadLink(err) || errors.Is(err, storage.ErrNotExist) {
			return nil
		}
		return err
	})
	for i, p := range read {
		if p.Version != "" && wanted(p.Digest) {
			p.History = unsure[i].history
			found[unsure[i].tag] = p
		}
	}
	return found, err
}

// listed holds the objects of a tag in a listing.
type listed struct {
	tag     oci.Tag
	link    storage.Info // Key "" = none
	history []string     // keys
}

// digest returns the digest in the link, if it follows from the listing.
func (t *listed) digest() (d oci.Digest, sure bool) {
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
