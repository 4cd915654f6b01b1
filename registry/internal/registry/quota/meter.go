package quota

import (
	"context"
	"errors"
	"io"
)

// A Meter takes ahead a quarter of what it has read, within these bounds: few writes of the
// account, and little room that other uploads miss.
const (
	minStep = 64 << 10
	maxStep = 64 << 20
)

// Meter takes bytes of a hold as they are read. Over the quota, reading fails with Refused.
type Meter struct {
	ctx     context.Context //nolint:containedctx // of the request that reads
	src     io.Reader
	hold    *Hold
	read    int64
	left    int64 // taken and not read yet
	Refused error
}

// NewMeter makes a meter of a body, of which size bytes are taken already.
func NewMeter(ctx context.Context, src io.Reader, hold *Hold, size int64) *Meter {
	return &Meter{ctx: ctx, src: src, hold: hold, left: size}
}

// Read implements io.Reader.
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	if more := int64(n) - m.left; more > 0 {
		if m.Refused = m.take(more); m.Refused != nil {
			return 0, m.Refused
		}
	}
	m.read, m.left = m.read+int64(n), m.left-int64(n)
	return n, err
}

// take takes at least n bytes. Near the limit it takes smaller steps.
func (m *Meter) take(n int64) error {
	for step := min(max(m.read/4, minStep), maxStep); step > n; step /= 2 {
		err := m.hold.take(m.ctx, step, false)
		if err == nil {
			m.left += step
			return nil
		}
		if !errors.Is(err, ErrExceeded) {
			return err
		}
	}
	m.left += n
	return m.hold.Take(m.ctx, n)
}
