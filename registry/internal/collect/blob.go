package collect

import (
	"context"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// sweepBlobs sets aside the bytes that nothing needs.
func (r *run) sweepBlobs(ctx context.Context) error {
	return r.eachBlob(ctx, layout.Blobs, func(dir, name string, d oci.Digest) error {
		info, err := r.Driver.Stat(ctx, layout.BlobData(d))
		if absent(err) {
			return r.tidy(ctx, layout.BlobDir(d))
		}
		if err != nil {
			return err
		}
		if r.keepBlob(d, info.Size) {
			return nil
		}
		r.tell(Event{Kind: OldBlob, Digest: d})
		if r.DryRun {
			r.freed(info.Size)
			return nil
		}
		if r.direct() {
			r.freed(info.Size)
			err = r.Driver.Discard(ctx, layout.BlobData(d))
		} else {
			_, err = r.move(ctx, layout.BlobData(d))
		}
		if err != nil {
			return err
		}
		return r.tidy(ctx, layout.BlobDir(d))
	})
}

// keepBlob counts a blob that is kept.
func (r *run) keepBlob(d oci.Digest, size int64) bool {
	var what uint8
	if i, ok := r.digests.find(d); ok {
		what = r.digests.note(i).what
	}
	var reason *Reason
	switch {
	case what&needed != 0, what == confirmed:
		reason = &r.report.Kept.Needed
	case what&promised != 0:
		reason = &r.report.Kept.Promised
	case what&withheld != 0:
		reason = &r.report.Kept.Withheld
	default:
		return false
	}
	reason.Blobs++
	reason.Bytes += size
	r.report.Blobs.Found++
	r.report.Blobs.Kept++
	r.report.Bytes.Found += size
	r.report.Bytes.Kept += size
	return true
}

func (r *run) freed(size int64) {
	r.report.Blobs.Found++
	r.report.Blobs.Freed++
	r.report.Bytes.Found += size
	r.report.Bytes.Freed += size
}

// eachBlob calls f for what looks like a blob two directories below root.
func (r *run) eachBlob(ctx context.Context, root string, f func(dir, name string, d oci.Digest) error) error {
	for _, alg := range algorithms {
		for prefix, err := range r.Driver.List(ctx, root+"/"+string(alg), "") {
			if absent(err) {
				break
			}
			if err != nil {
				return err
			}
			if !prefix.Dir {
				continue
			}
			if err := r.eachBlobIn(ctx, root+"/"+string(alg)+"/"+prefix.Name, alg, f); err != nil {
				return err
			}
		}
		if err := r.tidy(ctx, root+"/"+string(alg)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) eachBlobIn(ctx context.Context, dir string, alg oci.Algorithm, f func(dir, name string, d oci.Digest) error) error {
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		hex := e.Name
		if !e.Dir {
			hex, _ = layout.FromAside(e.Name, "data")
		}
		d, err := oci.ParseDigest(string(alg) + ":" + hex)
		if err != nil || !strings.HasSuffix(dir, "/"+hex[:2]) {
			continue
		}
		if err := f(dir, e.Name, d); err != nil {
			return err
		}
	}
	return r.tidy(ctx, dir)
}
