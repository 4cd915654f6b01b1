package registry

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// PurgeOptions says which uploads go.
type PurgeOptions struct {
	Age    time.Duration // without activity
	DryRun bool          // only tell
}

// PurgeReport tells what a purge did, or would do.
type PurgeReport struct {
	Purged []string // "<repository>/<id>"
	Errors int      // uploads and directories that could not be looked at or removed
}

// PurgeUploads removes the uploads that nobody added to for the age, and what
// dead processes left half-written. What
// cannot be read is logged, counted and passed over; the error is that of ctx,
// or of a storage without its root.
func (r *Registry) PurgeUploads(ctx context.Context, opts PurgeOptions) (PurgeReport, error) {
	p := purge{reg: r, opts: opts, before: r.now().Add(-opts.Age)}
	if err := r.writable(); err != nil && !opts.DryRun {
		return p.report, err
	}
	if _, err := r.driver.Stat(ctx, layout.Repositories); err != nil && !absent(err) {
		return p.report, fault(err)
	}
	p.walk(ctx, "")
	if err := ctx.Err(); err != nil || opts.DryRun {
		return p.report, err
	}
	return p.report, fault(r.driver.Sweep(ctx))
}

// RunPurge purges once, as a schedule does: with a summary in the log.
func (r *Registry) RunPurge(ctx context.Context, opts PurgeOptions) {
	report, err := r.PurgeUploads(ctx, opts)
	if ctx.Err() != nil {
		return
	}
	r.log.Info("upload purge finished", zap.Int("purged", len(report.Purged)),
		zap.Int("errors", report.Errors), zap.Bool("dryrun", opts.DryRun), zap.Error(err))
}

type purge struct {
	reg    *Registry
	opts   PurgeOptions
	before time.Time
	report PurgeReport
}

// walk purges in the repository and in those below it.
func (p *purge) walk(ctx context.Context, name string) {
	dir := layout.Repositories
	if name != "" {
		dir = layout.Repository(oci.Name(name))
	}
	for e, err := range p.reg.driver.List(ctx, dir, "") {
		switch {
		case absent(err) || ctx.Err() != nil:
			return
		case err != nil:
			p.failed(dir, err)
			return
		case e.Dir && e.Name == "_uploads" && name != "":
			p.repository(ctx, oci.Name(name))
		case e.Dir:
			if child, ok := childName(name, e.Name); ok {
				p.walk(ctx, child)
			}
		}
	}
}

func (p *purge) repository(ctx context.Context, name oci.Name) {
	for e, err := range p.reg.driver.List(ctx, layout.Uploads(name), "") {
		switch {
		case absent(err) || ctx.Err() != nil:
			return
		case err != nil:
			p.failed(layout.Uploads(name), err)
			return
		case e.Dir && driver.ValidPath(layout.Upload(name, e.Name)):
			p.upload(ctx, name, e.Name)
		}
	}
}

func (p *purge) upload(ctx context.Context, name oci.Name, id string) {
	last, err := p.reg.Repository(name).lastActivity(ctx, id)
	if err != nil {
		p.failed(layout.Upload(name, id), err)
		return
	}
	if last.IsZero() || !last.Before(p.before) || p.reg.uploads.held(sessionKey(name, id)) {
		return
	}
	if !p.opts.DryRun {
		p.reg.uploads.kept.take(sessionKey(name, id))
		if err := p.reg.driver.Discard(ctx, layout.Upload(name, id)); err != nil {
			p.failed(layout.Upload(name, id), err)
			return
		}
	}
	p.report.Purged = append(p.report.Purged, string(name)+"/"+id)
}

func (p *purge) failed(path string, err error) {
	p.report.Errors++
	p.reg.log.Warn("an upload cannot be purged", zap.String("path", path), zap.Error(err))
}

// lastActivity is when bytes were last added to an upload or, where the storage
// cannot tell, when it was begun. One without either goes by its directory; zero
// means that nobody knows.
func (r Repository) lastActivity(ctx context.Context, id string) (time.Time, error) {
	var last time.Time
	for _, path := range []string{
		layout.UploadData(r.name, id), layout.UploadStartedAt(r.name, id), layout.Upload(r.name, id),
	} {
		info, err := r.reg.driver.Stat(ctx, path)
		if err != nil && !absent(err) {
			return last, err
		}
		if info.Changed.After(last) {
			last = info.Changed
		}
	}
	if !last.IsZero() {
		return last, nil
	}
	started, err := r.startedAt(ctx, id)
	if isCode(err, oci.CodeBlobUploadUnknown) {
		err = nil
	}
	return started, err
}
