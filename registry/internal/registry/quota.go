package registry

import (
	"context"

	"slipway/registry/internal/registry/quota"
)

// hold begins to account for a request that adds to the repository; see [quota.Quotas.Hold].
// Caches of other registries have bounds of their own.
func (r Repository) hold(upload string, bytes int64) *quota.Hold {
	if r.filler {
		return nil
	}
	return r.reg.opts.Quota.Hold(r.name, upload, bytes)
}

// charge takes the size bytes of what is about to be linked at key, unless the repository has
// them already. The caller must keep the hold if the error is nil.
func (r Repository) charge(ctx context.Context, key string, size int64) (*quota.Hold, error) {
	h := r.hold("", 0)
	if h == nil {
		return nil, nil
	}
	_, err := r.reg.store.Stat(ctx, key)
	if absent(err) {
		err = h.Take(ctx, size)
	}
	if err != nil {
		h.Settle(0)
		return nil, err
	}
	return h, nil
}

// CountQuotas counts again what quotas bound, such as after a collection. Failures are logged.
func (r *Registry) CountQuotas(ctx context.Context) { r.opts.Quota.Count(ctx) }
