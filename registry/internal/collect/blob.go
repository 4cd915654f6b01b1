package collect

import (
	"context"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// sweepBlobs sets aside the bytes that nothing needs.
func (r *run) sweepBlobs(ctx context.Context) error {
	return r.eachBlob(ctx, layout.Blobs, ofDir, r.sweepBlob)
}

func (r *run) sweepBlob(ctx context.Context, d oci.Digest) error {
	path := layout.BlobData(d)
	info, err := r.Driver.Stat(ctx, path)
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
	alone, err := r.removeAlone(ctx, path)
	switch {
	case err != nil:
		return err
	case alone:
		r.freed(info.Size)
	default:
		moved, err := r.move(ctx, path)
		if err != nil {
			return err
		}
		if !moved {
			r.digests.mark(r.digests.add(d), withheld)
			r.keepBlob(d, info.Size)
		}
	}
	return r.tidy(ctx, layout.BlobDir(d))
}

// keepBlob counts a blob that is kept.
func (r *run) keepBlob(d oci.Digest, size int64) bool {
	what := r.digests.what(d)
	if what == 0 {
		return false
	}
	r.book(func(p *Report) {
		reason := &p.Kept.Withheld
		switch {
		case what&needed != 0, what == confirmed:
			reason = &p.Kept.Needed
		case what&promised != 0:
			reason = &p.Kept.Promised
		}
		reason.Blobs++
		reason.Bytes += size
		p.Blobs.Found++
		p.Blobs.Kept++
		p.Bytes.Found += size
		p.Bytes.Kept += size
	})
	return true
}

func (r *run) freed(size int64) {
	r.book(func(p *Report) {
		p.Blobs.Found++
		p.Blobs.Freed++
		p.Bytes.Found += size
		p.Bytes.Freed += size
	})
}

// eachBlob calls f for what is named like a blob two directories below root.
func (r *run) eachBlob(ctx context.Context, root string, of hexOf, f func(ctx context.Context, d oci.Digest) error) error {
	crew := r.crew(ctx)
	for _, alg := range algorithms {
		crew.try(func(ctx context.Context) error {
			for prefix, err := range r.Driver.List(ctx, root+"/"+string(alg), "") {
				if absent(err) {
					return nil
				}
				if err != nil {
					return err
				}
				if prefix.Dir {
					crew.do(func(ctx context.Context) error {
						return r.eachBlobIn(ctx, root+"/"+string(alg)+"/"+prefix.Name, alg, of, f)
					})
				}
			}
			return nil
		})
	}
	if err := crew.wait(); err != nil {
		return err
	}
	for _, alg := range algorithms {
		if err := r.tidy(ctx, root+"/"+string(alg)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) eachBlobIn(ctx context.Context, dir string, alg oci.Algorithm, of hexOf, f func(ctx context.Context, d oci.Digest) error) error {
	err := r.eachDigest(ctx, dir, alg, of, func(d oci.Digest) error {
		if !strings.HasSuffix(dir, "/"+d.Hex()[:2]) {
			return nil
		}
		return f(ctx, d)
	})
	if err != nil {
		return err
	}
	return r.tidy(ctx, dir)
}
