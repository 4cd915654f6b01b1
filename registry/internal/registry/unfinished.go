package registry

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// UploadStatus describes an upload in progress.
type UploadStatus struct {
	Size      int64
	StartedAt time.Time
}

// UploadStatus describes an upload without taking it over. BLOB_UPLOAD_UNKNOWN.
func (r Repository) UploadStatus(ctx context.Context, id string) (UploadStatus, error) {
	if !layout.ValidUploadID(id) {
		return UploadStatus{}, uploadUnknown()
	}
	startedAt, err := r.uploadStartedAt(ctx, id)
	if err != nil {
		return UploadStatus{}, err
	}
	info, err := r.reg.store.Stat(ctx, layout.UploadData(r.name, id))
	size := max(info.Size, r.reg.holders.size(holderKey(r.name, id))) // a store may show it late
	return UploadStatus{Size: size, StartedAt: startedAt}, unlessAbsent(err)
}

func (r Repository) uploadStartedAt(ctx context.Context, id string) (time.Time, error) {
	b, _, err := storage.Read(ctx, r.reg.store, layout.UploadStartedAt(r.name, id), layout.MaxLink)
	if absent(err) {
		return time.Time{}, uploadUnknown()
	}
	if err != nil {
		return time.Time{}, err
	}
	t, err := layout.ParseStartedAt(b)
	if err != nil {
		return time.Time{}, &oci.Error{Code: oci.CodeBlobUploadUnknown, Err: err}
	}
	return t, nil
}

// UnfinishedUpload describes an upload that was neither committed nor canceled.
type UnfinishedUpload struct {
	Repository oci.Name  `json:"repository"`
	ID         string    `json:"id"`
	Size       int64     `json:"size"`
	Started    time.Time `json:"started"`  // zero if unknown
	Modified   time.Time `json:"modified"` // when bytes were last added, by the clock of the store

	empty bool // nothing but directories or hash states is left of it, or it is just begun, or ended
}

// Uploads yields the unfinished uploads of all repositories. It yields an error for each
// that can't be read and continues.
func (r *Registry) Uploads(ctx context.Context) iter.Seq2[UnfinishedUpload, error] {
	return func(yield func(UnfinishedUpload, error) bool) {
		for u, err := range r.allUploads(ctx) {
			if !u.empty && !yield(u, err) {
				return
			}
		}
	}
}

// allUploads is like Uploads but includes empty ones.
func (r *Registry) allUploads(ctx context.Context) iter.Seq2[UnfinishedUpload, error] {
	return func(yield func(UnfinishedUpload, error) bool) {
		for name, err := range tree.Repositories(ctx, r.store) {
			if err != nil && !yield(UnfinishedUpload{Repository: name}, err) {
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
			return yield(UnfinishedUpload{Repository: r.name}, err)
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
		return u, err
	}
	started, err := r.reg.store.Stat(ctx, layout.UploadStartedAt(r.name, id))
	if unlessAbsent(err) != nil {
		return u, err
	}
	u.Size, u.Modified = data.Size, started.Modified
	if data.Modified.After(u.Modified) {
		u.Modified = data.Modified
	}
	u.Started, err = r.uploadStartedAt(ctx, id)
	if e := (*oci.Error)(nil); errors.As(err, &e) {
		err = nil
	}
	if err == nil && u.Modified.IsZero() && u.Started.IsZero() {
		keys, err := r.reg.store.Keys(ctx, layout.Upload(r.name, id))
		states := layout.UploadHashStates(r.name, id)
		u.empty = !slices.ContainsFunc(keys, func(key string) bool { return !strings.HasPrefix(key, states) })
		return u, err
	}
	return u, err
}

// PurgeOptions selects the uploads to remove.
type PurgeOptions struct {
	Age    time.Duration // without activity; 0 = all, except those that a request of this process works on
	DryRun bool          // remove nothing
}

// PurgeReport describes what a purge removed, or would remove.
type PurgeReport struct {
	Purged []UnfinishedUpload
	Bytes  int64
	Kept   int // uploads that are younger, or that a request of this process works on
	Errors int // uploads and repositories that could not be read or removed
}

// PurgeUploads removes unfinished uploads, and recounts the bytes that quotas bound. Uploads that can't be read
// are logged, counted and skipped; the error is that of ctx.
func (r *Registry) PurgeUploads(ctx context.Context, opts PurgeOptions) (report PurgeReport, err error) {
	if !opts.DryRun {
		if err := r.writable(); err != nil {
			return report, err
		}
		defer r.CountQuotas(ctx)
	}
	before := r.now().Add(-opts.Age)
	for u, err := range r.allUploads(ctx) {
		if err == nil && !u.before(before) || ctx.Err() != nil || r.holders.size(holderKey(u.Repository, u.ID)) >= 0 {
			report.Kept++
			continue
		}
		if err == nil && !opts.DryRun {
			err = r.purgeUpload(ctx, &u)
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
// known stays, unless it is empty.
func (u *UnfinishedUpload) before(t time.Time) bool {
	last := u.Modified
	if last.IsZero() {
		last = u.Started
	}
	return u.empty || !last.IsZero() && !last.After(t)
}

// purgeUpload deletes all objects of an upload, which ends it for its holder. Of one that is empty it deletes hash
// states only, as it may just be beginning. Durable deletions leave no empty directories.
func (r *Registry) purgeUpload(ctx context.Context, u *UnfinishedUpload) error {
	keys, err := r.store.Keys(ctx, layout.Upload(u.Repository, u.ID))
	if err != nil {
		return err
	}
	if u.empty {
		states := layout.UploadHashStates(u.Repository, u.ID)
		keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, states) })
		if len(keys) == 0 { // deleting an absent key removes empty directories
			return r.store.Apply(ctx, nil, storage.Stage{{Key: states + "sha256/0", Delete: true, If: storage.IfAbsent()}})
		}
	} else {
		r.unwritten.Forget(holderKey(u.Repository, u.ID))
		if data := layout.UploadData(u.Repository, u.ID); !slices.Contains(keys, data) {
			keys = append(keys, data)
		}
	}
	var stage storage.Stage
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true})
	}
	return r.store.Apply(ctx, nil, stage)
}
