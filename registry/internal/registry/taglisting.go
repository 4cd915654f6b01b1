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

// listPointers is pointingAt by a listing of what lies below: all tags, or one. Where that holds
// hashes of the links, and the history of a tag says what they may be hashes of, no link is read.
func (r Repository) listPointers(ctx context.Context, below string, d oci.Digest) (map[oci.Tag]pointer, error) {
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
