package collect

import (
	"context"
	"iter"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// object is a listed object that is named by a digest.
type object struct {
	digest oci.Digest
	storage.Info
}

// objects yields the objects of that suffix below a prefix. On files a look at each costs
// less than a listing of what is below each.
func (r *run) objects(ctx context.Context, prefix, suffix string, alg oci.Algorithm) iter.Seq2[object, error] {
	if r.Remote {
		return r.list(ctx, prefix, suffix, alg, storage.ListOptions{Flat: true})
	}
	return func(yield func(object, error) bool) {
		for o, err := range r.names(ctx, prefix, alg) {
			if err == nil {
				o.Info, err = r.Store.Stat(ctx, prefix+"/"+o.digest.Hex()+suffix)
			}
			if absent(err) {
				continue
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// links yields the links below a prefix.
func (r *run) links(ctx context.Context, prefix string, alg oci.Algorithm) iter.Seq2[object, error] {
	return r.objects(ctx, prefix, "/link", alg)
}

// names yields the digests below a prefix, whether or not there is a link or are bytes.
func (r *run) names(ctx context.Context, prefix string, alg oci.Algorithm) iter.Seq2[object, error] {
	return r.list(ctx, prefix, "/", alg, storage.ListOptions{Names: true})
}

func (r *run) list(ctx context.Context, prefix, suffix string, alg oci.Algorithm, o storage.ListOptions) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		for info, err := range r.Store.List(ctx, prefix, o) {
			if err == nil {
				err = r.step(ctx)
			}
			if err != nil {
				yield(object{}, err)
				return
			}
			hex, ok := strings.CutSuffix(info.Key[len(prefix)+1:], suffix)
			if !ok {
				continue
			}
			if d, err := oci.ParseDigest(string(alg) + ":" + hex); err == nil && !yield(object{d, info}, nil) {
				return
			}
		}
	}
}
