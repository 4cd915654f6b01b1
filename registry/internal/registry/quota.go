package registry

import (
	"context"
	"errors"
	"io"

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
// them already. The caller must settle the hold if the error is nil.
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
		h.Settle(ctx, 0)
		return nil, err
	}
	return h, nil
}

// A meter takes ahead a quarter of what it has read, within these bounds: few writes of the
// account, and little room that other uploads miss.
const (
	minStep = 64 << 10
	maxStep = 64 << 20
)

// meter takes bytes as they are read. Over the quota, reading fails with refused.
type meter struct {
	ctx     context.Context //nolint:containedctx // of the request that reads
	src     io.Reader
	hold    *quota.Hold
	read    int64
	left    int64 // taken and not read yet
	refused error
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	if more := int64(n) - m.left; more > 0 {
		if m.refused = m.take(more); m.refused != nil {
			return 0, m.refused
		}
	}
	m.read, m.left = m.read+int64(n), m.left-int64(n)
	return n, err
}

// take takes at least n bytes. Near the limit it takes smaller steps.
func (m *meter) take(n int64) error {
	for step := min(max(m.read/4, minStep), maxStep); step > n; step /= 2 {
		err := m.hold.Try(m.ctx, step)
		if err == nil {
			m.left += step
			return nil
		}
		if !errors.Is(err, quota.ErrExceeded) {
			return err
		}
	}
	m.left += n
	return m.hold.Take(m.ctx, n)
}
