package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// deletion is the note of a manifest that was being deleted: with the tags that were
// to go with it, and the times of their links in nanoseconds.
type deletion struct {
	Repository oci.Name          `json:"repository"`
	Digest     oci.Digest        `json:"digest"`
	Tags       map[oci.Tag]int64 `json:"tags"`
}

// maxNote is more than such a note has.
const maxNote = 64 << 20

// finishDeletions deletes the tags of manifests that are gone. A manifest that is
// there was not deleted: so the client was told.
func (v *volume) finishDeletions(ctx context.Context) error {
	entries, err := os.ReadDir(v.root + deleting)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := v.finishDeletion(ctx, deleting+"/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) finishDeletion(ctx context.Context, note string) error {
	content, _, err := storage.Read(ctx, v.store, note, maxNote)
	if errors.Is(err, storage.ErrNotExist) {
		return nil // another process has finished it
	}
	if err != nil {
		return err
	}
	var d deletion
	if json.Unmarshal(content, &d) == nil && d.valid() {
		_, err := v.store.Stat(ctx, layout.RevisionLink(d.Repository, d.Digest))
		if errors.Is(err, storage.ErrNotExist) {
			v.report.Deletions++
			err = v.deleteTags(ctx, &d)
		}
		if err != nil {
			return err
		}
	}
	return v.store.Apply(ctx, nil, storage.Stage{{Key: note, Delete: true}})
}

func (d *deletion) valid() bool {
	_, name := oci.ParseName(string(d.Repository))
	_, digest := oci.ParseDigest(string(d.Digest))
	return name == nil && digest == nil
}

// deleteTags deletes the tags that are as they were noted.
func (v *volume) deleteTags(ctx context.Context, d *deletion) error {
	for tag, since := range d.Tags {
		if _, err := oci.ParseTag(string(tag)); err != nil {
			continue
		}
		link, ok := v.noted(ctx, d, tag, time.Unix(0, since))
		if !ok {
			continue
		}
		var history storage.Stage
		for info, err := range v.store.List(ctx, layout.Tag(d.Repository, tag)+"/index", storage.ListOptions{Flat: true, Names: true}) {
			if err != nil {
				return err
			}
			history = append(history, storage.Change{Key: info.Key, Delete: true})
		}
		err := v.store.Apply(ctx, nil, storage.Stage{{Key: link.Key, Delete: true, If: storage.IfVersion(link.Version)}}, history)
		if err != nil && !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return nil
}

// noted returns the link of a tag if it is the one that was noted. One that was just
// restored has no version for a moment.
func (v *volume) noted(ctx context.Context, d *deletion, tag oci.Tag, since time.Time) (link tree.Link, ok bool) {
	for range 100 {
		link, ok = tree.ReadLink(ctx, v.store, layout.TagCurrent(d.Repository, tag), d.Digest)
		if !ok || link.Err != nil || link.Target != d.Digest || !link.Modified.Equal(since) {
			return link, false
		}
		if link.Version != "" {
			return link, true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return link, false
}
