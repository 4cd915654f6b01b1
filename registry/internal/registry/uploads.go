package registry

import (
	"context"
	"iter"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// UnfinishedUpload describes an upload that was begun and not ended.
type UnfinishedUpload struct {
	Repository oci.Name  `json:"repository"`
	ID         string    `json:"id"`
	Size       int64     `json:"size"`
	Started    time.Time `json:"started"`  // zero where nobody wrote it down
	Modified   time.Time `json:"modified"` // when bytes were last added, by the clock of the store
}

// Uploads yields the unfinished uploads of all repositories. What cannot be read is
// an error, and the listing goes on.
func (r *Registry) Uploads(ctx context.Context) iter.Seq2[UnfinishedUpload, error] {
	return func(yield func(UnfinishedUpload, error) bool) {
		for name, err := range tree.Repositories(ctx, r.store) {
			if err != nil && !yield(UnfinishedUpload{Repository: name}, fault(err)) {
				return
			}
			if err == nil && !r.Repository(name).eachUpload(ctx, yield) {
				return
			}
		}
	}
}

func (r Repository) eachUpload(ctx context.Context, yield func(UnfinishedUpload, error) bool) bool {
	for info, err := range r.reg.store.List(ctx, layout.Uploads(r.name), storage.ListOptions{Names: true}) {
		if err != nil {
			return yield(UnfinishedUpload{Repository: r.name}, fault(err))
		}
		if info.Prefix {
			id := info.Key[len(layout.Uploads(r.name))+1 : len(info.Key)-1]
			if !yield(r.describeUpload(ctx, id)) {
				return false
			}
		}
	}
	return true
}

// describeUpload describes an upload by its bytes and its startedat, of which either
// may be missing, or both where a writer has died.
func (r Repository) describeUpload(ctx context.Context, id string) (UnfinishedUpload, error) {
	u := UnfinishedUpload{Repository: r.name, ID: id}
	data, err := r.reg.store.Stat(ctx, layout.UploadData(r.name, id))
	if unlessAbsent(err) != nil {
		return u, fault(err)
	}
	started, err := r.reg.store.Stat(ctx, layout.UploadStartedAt(r.name, id))
	if unlessAbsent(err) != nil {
		return u, fault(err)
	}
	if l, ok := r.reg.store.Store.(storage.Leaver); ok && data.Modified.IsZero() && started.Modified.IsZero() {
		if data, err = l.Leftovers(ctx, layout.UploadData(r.name, id)); unlessAbsent(err) != nil {
			return u, fault(err)
		}
	}
	u.Size, u.Modified = data.Size, started.Modified
	if data.Modified.After(u.Modified) {
		u.Modified = data.Modified
	}
	u.Started, err = r.startedAt(ctx, id)
	if isCode(err, oci.CodeBlobUploadUnknown) {
		err = nil
	}
	return u, err
}

// PurgeOptions says which uploads are removed.
type PurgeOptions struct {
	Age    time.Duration // without activity; 0 = all, except those that a request of this process works on
	DryRun bool          // remove nothing
}

// PurgeReport tells what a purge removed, or would remove.
type PurgeReport struct {
	Purged []UnfinishedUpload
	Bytes  int64
	Kept   int // uploads that are younger, or that a request of this process works on
	Errors int // uploads and repositories that could not be read or removed
}

// PurgeUploads removes unfinished uploads, and what writers that died have left. What
// cannot be read is logged, counted and passed over; the error is that of ctx or of
// the last step.
func (r *Registry) PurgeUploads(ctx context.Context, opts PurgeOptions) (PurgeReport, error) {
	var report PurgeReport
	if err := r.writable(); err != nil && !opts.DryRun {
		return report, err
	}
	before := r.now().Add(-opts.Age)
	for u, err := range r.Uploads(ctx) {
		if err == nil && !u.before(before) || ctx.Err() != nil || r.uploads.size(holderKey(u.Repository, u.ID)) >= 0 {
			report.Kept++
			continue
		}
		if err == nil && !opts.DryRun {
			err = r.Repository(u.Repository).purgeUpload(ctx, u.ID)
		}
		if err != nil {
			report.Errors++
			r.log.Warn("cannot purge an upload", zap.String("repository", string(u.Repository)), zap.String("upload", u.ID), zap.Error(err))
			continue
		}
		report.Purged, report.Bytes = append(report.Purged, u), report.Bytes+u.Size
	}
	if err := ctx.Err(); err != nil || opts.DryRun {
		return report, err
	}
	if c, ok := r.store.Store.(storage.Cleaner); ok {
		return report, fault(c.Clean(ctx))
	}
	return report, nil
}

// RunPurge purges once, as a schedule does: with a summary in the log.
func (r *Registry) RunPurge(ctx context.Context, opts PurgeOptions) error {
	report, err := r.PurgeUploads(ctx, opts)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.log.Info("upload purge finished", zap.Int("purged", len(report.Purged)), zap.Int64("bytes", report.Bytes),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", opts.DryRun), zap.Error(err))
	return err
}

// before says whether nobody has added to the upload since t. One of which no time is
// known stays.
func (u *UnfinishedUpload) before(t time.Time) bool {
	last := u.Modified
	if last.IsZero() {
		last = u.Started
	}
	return !last.IsZero() && !last.After(t)
}

// purgeUpload deletes all objects of an upload, which ends it for whoever holds it.
// Durable deletions leave no empty directories.
func (r Repository) purgeUpload(ctx context.Context, id string) error {
	r.reg.left.Forget(holderKey(r.name, id))
	keys, err := r.reg.store.Keys(ctx, layout.Upload(r.name, id))
	if err != nil {
		return fault(err)
	}
	if data := layout.UploadData(r.name, id); !slices.Contains(keys, data) {
		keys = append(keys, data)
	}
	return fault(r.reg.apply(ctx, nil, deletions(keys)))
}
