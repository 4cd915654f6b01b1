package registry

import (
	"context"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// erasure is the note of a deletion that is under way. Links are named with the
// time of their last change: what was pushed since is somebody else's.
type erasure struct {
	Repository oci.Name          `json:"repository"`
	Digest     oci.Digest        `json:"digest"`
	Changed    time.Time         `json:"changed"` // the manifest's link
	Tags       map[oci.Tag]int64 `json:"tags"`    // nanoseconds of their links
}

// maxErasure bounds a note: some hundred thousand tags.
const maxErasure = 32 << 20

// noteErasure is the note of a deletion.
func (r Repository) noteErasure(ctx context.Context, d oci.Digest, tags []oci.Tag) (*erasure, error) {
	info, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	if err != nil {
		return nil, err
	}
	e := &erasure{Repository: r.name, Digest: d, Changed: info.Changed, Tags: map[oci.Tag]int64{}}
	return e, r.noteTags(ctx, e, tags)
}

// noteTags notes those of the tags that point at the manifest.
func (r Repository) noteTags(ctx context.Context, e *erasure, tags []oci.Tag) error {
	for _, tag := range tags {
		path := layout.TagCurrent(r.name, tag)
		info, err := r.reg.driver.Stat(ctx, path)
		if err == nil && r.reg.isLink(ctx, path, e.Digest, info.Changed) {
			e.Tags[tag] = info.Changed.UnixNano()
		} else if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

func validErasure(e *erasure) bool {
	if _, err := oci.ParseName(string(e.Repository)); err != nil {
		return false
	}
	for tag := range e.Tags {
		if _, err := oci.ParseTag(string(tag)); err != nil {
			return false
		}
	}
	_, err := oci.ParseDigest(string(e.Digest))
	return err == nil
}
