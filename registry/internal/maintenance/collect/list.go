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

// objects yields the objects of that suffix below a prefix. A remote store dates them; for
// others a look at those that matter costs less, and some may not exist.
func (r *run) objects(ctx context.Context, prefix, suffix string, alg oci.Algorithm) iter.Seq2[object, error] {
	o, end := storage.ListOptions{Names: true}, "/"
	if r.Remote {
		o, end = storage.ListOptions{Flat: true}, suffix
	}
	return func(yield func(object, error) bool) {
		for info, err := range r.Store.List(ctx, prefix, o) {
			if err == nil {
				err = r.pace.step(ctx)
			}
			if err != nil {
				yield(object{}, err)
				return
			}
			hex, ok := strings.CutSuffix(info.Key[len(prefix)+1:], end)
			if !ok {
				continue
			}
			if !r.Remote {
				info = storage.Info{Key: prefix + "/" + hex + suffix}
			}
			if d, err := oci.ParseDigest(string(alg) + ":" + hex); err == nil && !yield(object{d, info}, nil) {
				return
			}
		}
	}
}
