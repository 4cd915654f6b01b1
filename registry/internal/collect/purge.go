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
	return r.eachBlob(ctx, layout.AsideDir(layout.Blobs), func(dir, name string, d oci.Digest) error {
		if i, ok := r.digests.find(d); ok && r.digests.note(i).what&confirmed != 0 {
			return r.restoreBlob(ctx, d)
		}
		info, err := r.Driver.Stat(ctx, dir+"/"+name)
		if absent(err) {
			return nil // somebody needs it
		}
		if err != nil {
			return err
		}
		if err := r.Driver.Discard(ctx, dir+"/"+name); err != nil {
			return err
		}
		r.freed(info.Size)
		return nil
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
			err = ctx.Err()
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
