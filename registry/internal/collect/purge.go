package collect

import (
	"context"
	"path"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// purge deletes what is aside and was not confirmed: links first, then bytes.
func (r *run) purge(ctx context.Context) error {
	if err := r.purgeLinks(ctx, layout.AsideDir(layout.Repositories)); err != nil && !absent(err) {
		return err
	}
	if err := r.purgeBlobs(ctx); err != nil {
		return err
	}
	for dir := layout.AsideDir(layout.Blobs); dir != "/"; dir = path.Dir(dir) {
		if err := r.tidy(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) purgeBlobs(ctx context.Context) error {
	return r.eachBlob(ctx, layout.AsideDir(layout.Blobs), ofData, func(ctx context.Context, d oci.Digest) error {
		if r.digests.what(d)&confirmed != 0 {
			return r.restoreBlob(ctx, d)
		}
		path := layout.Aside(layout.BlobData(d))
		info, err := r.Driver.Stat(ctx, path)
		if absent(err) {
			return nil // somebody needs it
		}
		if err == nil {
			err = r.Driver.Discard(ctx, path)
		}
		if err == nil {
			r.freed(info.Size)
		}
		return err
	})
}

func (r *run) restoreBlob(ctx context.Context, d oci.Digest) error {
	if err := r.restore(ctx, layout.BlobData(d)); err != nil {
		return err
	}
	info, err := r.Driver.Stat(ctx, layout.BlobData(d))
	if err == nil {
		r.keepBlob(d, info.Size)
	}
	return err
}

// purgeLinks deletes the links aside below dir and the directories left empty.
func (r *run) purgeLinks(ctx context.Context, dir string) error {
	for e, err := range r.Driver.List(ctx, dir, "") {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err != nil {
			return err
		}
		child := dir + "/" + e.Name
		if e.Dir {
			err = r.purgeLinks(ctx, child)
		} else {
			err = r.Driver.Discard(ctx, child)
		}
		if err != nil && !absent(err) {
			return err
		}
	}
	return r.tidy(ctx, dir)
}
