package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"slipway/registry/internal/driver"
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

// maxErasure bounds a note in bytes, maxNoted in tags, which are fewer.
const (
	maxErasure = 32 << 20
	maxNoted   = 100_000
)

// describeErasure is the deletion of a manifest as it is now.
func (r Repository) describeErasure(ctx context.Context, d oci.Digest, tags []oci.Tag) (*erasure, error) {
	info, err := r.reg.find(ctx, layout.RevisionLink(r.name, d), toRead)
	if err != nil {
		return nil, err
	}
	e := &erasure{Repository: r.name, Digest: d, Changed: info.Changed, Tags: map[oci.Tag]int64{}}
	return e, r.noteTags(ctx, e, tags)
}

// notes is the paths of new notes, and what writes them: one, or some where there
// are very many tags. Without tags none is needed.
func (e *erasure) notes() (paths []string, write []driver.Stage, err error) {
	var stage driver.Stage
	for part := range e.parts(maxNoted) {
		content, err := json.Marshal(part)
		if err != nil {
			return nil, nil, err
		}
		path := layout.Deleting + "/" + rand.Text()
		paths, stage = append(paths, path), append(stage, driver.Change{Path: path, Content: content})
	}
	if stage == nil {
		return nil, nil, nil
	}
	return paths, []driver.Stage{stage}, nil
}

// parts is the same deletion for so many tags at a time; none if there are no tags.
func (e *erasure) parts(n int) iter.Seq[*erasure] {
	return func(yield func(*erasure) bool) {
		for tags := range slices.Chunk(slices.Collect(maps.Keys(e.Tags)), n) {
			part := *e
			part.Tags = make(map[oci.Tag]int64, len(tags))
			for _, tag := range tags {
				part.Tags[tag] = e.Tags[tag]
			}
			if !yield(&part) {
				return
			}
		}
	}
}

// noteTags notes those of the tags that point at the manifest, or will when their
// links are put back.
func (r Repository) noteTags(ctx context.Context, e *erasure, tags []oci.Tag) error {
	for _, tag := range tags {
		info, at, err := r.reg.driver.Find(ctx, layout.TagCurrent(r.name, tag), layout.ExpiringTag(r.name, tag))
		if absent(err) {
			continue
		}
		points := false
		if err == nil {
			points, err = r.reg.isLink(ctx, at, e.Digest, info.Changed)
		}
		if err != nil {
			return err
		}
		if points {
			e.Tags[tag] = info.Changed.UnixNano()
		}
	}
	return nil
}

// readNote reads the note of a deletion. Errors are those of the driver, or
// errBadNote.
func (r *Registry) readNote(ctx context.Context, path string) (*erasure, error) {
	content, err := r.driver.ReadFile(ctx, path, maxErasure)
	if err != nil {
		return nil, err
	}
	var e erasure
	if err := json.Unmarshal(content, &e); err != nil {
		return nil, fmt.Errorf("%w: %s", errBadNote, err.Error())
	}
	if !validErasure(&e) {
		return nil, errBadNote
	}
	return &e, nil
}

var errBadNote = errors.New("this is no note of a deletion, remove it")

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
