package upload

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Unfinished describes an upload that was begun and not ended.
type Unfinished struct {
	Repository oci.Name  `json:"repository"`
	ID         string    `json:"id"`
	Size       int64     `json:"size"`
	Started    time.Time `json:"started"`  // zero where nobody wrote it down
	Modified   time.Time `json:"modified"` // when bytes were last added, by the clock of the store

	empty bool // it has no objects: directories that were left, or it is just begun, or ended
}

// Unfinished yields the unfinished uploads of all repositories. What cannot be read is
// an error, and the listing goes on.
func (r *Receiver) Unfinished(ctx context.Context) iter.Seq2[Unfinished, error] {
	return func(yield func(Unfinished, error) bool) {
		for u, err := range r.all(ctx) {
			if !u.empty && !yield(u, err) {
				return
			}
		}
	}
}

// all is Unfinished with those that are empty.
func (r *Receiver) all(ctx context.Context) iter.Seq2[Unfinished, error] {
	return func(yield func(Unfinished, error) bool) {
		for name, err := range tree.Repositories(ctx, r.store) {
			if err != nil && !yield(Unfinished{Repository: name}, err) {
				return
			}
			if err == nil && !r.each(ctx, name, yield) {
				return
			}
		}
	}
}

func (r *Receiver) each(ctx context.Context, name oci.Name, yield func(Unfinished, error) bool) bool {
	for info, err := range r.store.List(ctx, layout.Uploads(name), storage.ListOptions{Names: true}) {
		if err != nil {
			return yield(Unfinished{Repository: name}, err)
		}
		if info.Prefix {
			id := info.Key[len(layout.Uploads(name))+1 : len(info.Key)-1]
			if !yield(r.describe(ctx, name, id)) {
				return false
			}
		}
	}
	return true
}

// describe describes an upload by its bytes and its startedat, of which either
// may be missing, or both where a writer has died.
func (r *Receiver) describe(ctx context.Context, name oci.Name, id string) (Unfinished, error) {
	u := Unfinished{Repository: name, ID: id}
	data, err := r.store.Stat(ctx, layout.UploadData(name, id))
	if unlessAbsent(err) != nil {
		return u, err
	}
	started, err := r.store.Stat(ctx, layout.UploadStartedAt(name, id))
	if unlessAbsent(err) != nil {
		return u, err
	}
	u.Size, u.Modified = data.Size, started.Modified
	if data.Modified.After(u.Modified) {
		u.Modified = data.Modified
	}
	u.Started, err = r.startedAt(ctx, name, id)
	if e := (*oci.Error)(nil); errors.As(err, &e) {
		err = nil
	}
	if err == nil && !r.store.Remote && u.Modified.IsZero() && u.Started.IsZero() {
		keys, err := r.store.Keys(ctx, layout.Upload(name, id))
		u.empty = len(keys) == 0
		return u, err
	}
	return u, err
}

// PurgeOptions says which uploads are removed.
type PurgeOptions struct {
	Age    time.Duration // without activity; 0 = all, except those that a request of this process works on
	DryRun bool          // remove nothing
}

// PurgeReport describes what a purge removed, or would remove.
type PurgeReport struct {
	Purged []Unfinished
	Bytes  int64
	Kept   int // uploads that are younger, or that a request of this process works on
	Errors int // uploads and repositories that could not be read or removed
}

// Purge removes unfinished uploads. What cannot be read is logged, counted and
// skipped; the error is that of ctx.
func (r *Receiver) Purge(ctx context.Context, opts PurgeOptions) (PurgeReport, error) {
	var report PurgeReport
	before := r.now().Add(-opts.Age)
	for u, err := range r.all(ctx) {
		if err == nil && !u.before(before) || ctx.Err() != nil || r.holders.size(holderKey(u.Repository, u.ID)) >= 0 {
			report.Kept++
			continue
		}
		if err == nil && !opts.DryRun {
			err = r.purge(ctx, &u)
		}
		if err != nil {
			report.Errors++
			r.log.Warn("cannot purge an upload", zap.String("repository", string(u.Repository)), zap.String("upload", u.ID), zap.Error(err))
			continue
		}
		if u.empty {
			continue
		}
		report.Purged, report.Bytes = append(report.Purged, u), report.Bytes+u.Size
	}
	return report, ctx.Err()
}

// before reports whether nobody has added to the upload since t. One of which no time is
// known stays, unless nothing but directories is left of it.
func (u *Unfinished) before(t time.Time) bool {
	last := u.Modified
	if last.IsZero() {
		last = u.Started
	}
	return u.empty || !last.IsZero() && !last.After(t)
}

// purge deletes all objects of an upload, which ends it for its holder.
// Durable deletions leave no empty directories.
func (r *Receiver) purge(ctx context.Context, u *Unfinished) error {
	if u.empty { // deleting an absent key removes empty directories, and not an upload that is just being begun
		absent := layout.UploadHashState(u.Repository, u.ID, oci.SHA256, 0)
		return r.store.Apply(ctx, nil, storage.Stage{{Key: absent, Delete: true, If: storage.IfAbsent()}})
	}
	r.announced.Forget(holderKey(u.Repository, u.ID))
	keys, err := r.store.Keys(ctx, layout.Upload(u.Repository, u.ID))
	if err != nil {
		return err
	}
	if data := layout.UploadData(u.Repository, u.ID); !slices.Contains(keys, data) {
		keys = append(keys, data)
	}
	var stage storage.Stage
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true})
	}
	return r.store.Apply(ctx, nil, stage)
}
