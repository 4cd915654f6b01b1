// Package quota bounds the bytes of repositories: of the blobs and manifests that are
// linked in each, and of the uploads that it has not finished. Each process adds what it takes to the
// last count of the storage, and counts again at its start, with each purge and collection, and before
// a refusal. So replicas together may exceed a quota by what the others push between two counts.
package quota

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// ErrExceeded is inside the DENIED error of a push that a quota has no room for.
var ErrExceeded = errors.New("over the quota")

const countPause = 10 * time.Second

// Quota is the most bytes that the repository called Prefix and all below it may have
// together.
type Quota struct {
	Prefix oci.Name
	Limit  int64
}

// Covers reports whether the quota bounds the repository.
func (q Quota) Covers(name oci.Name) bool {
	rest, ok := strings.CutPrefix(string(name), string(q.Prefix))
	return ok && (rest == "" || rest[0] == '/')
}

// Quotas are all quotas of a registry. A nil *Quotas bounds nothing. Its methods are safe for
// concurrent use.
type Quotas struct {
	list []*counter
	stop context.CancelFunc
}

// New does no I/O. All processes that push to the store must have the same quotas.
func New(store storage.Store, quotas []Quota, log *zap.Logger) *Quotas {
	ctx, stop := context.WithCancel(context.Background())
	all := &Quotas{stop: stop}
	for _, q := range quotas {
		all.list = append(all.list, &counter{Quota: q, ctx: ctx, store: store, log: log, pause: countPause, reservations: map[*Reservation]int64{}})
	}
	return all
}

// Count counts what each quota covers. It logs failures: the next count corrects them.
func (all *Quotas) Count(ctx context.Context) {
	if all == nil {
		return
	}
	for _, c := range all.list {
		if err := c.count(ctx); err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("cannot count the bytes under a quota; the next push that it would refuse tries again",
				zap.String("prefix", string(c.Prefix)), zap.Error(err))
		}
	}
}

// Close ends the counts under way and waits for them. Later counts fail.
func (all *Quotas) Close() {
	if all == nil {
		return
	}
	all.stop()
	for _, c := range all.list {
		_ = c.count(context.Background()) // joins the one under way
	}
}

// Reservation accounts for one request that adds to a repository. Until Settle, counts rely on the
// reservation for its bytes instead of on what they find. A nil *Reservation does nothing. One goroutine
// at a time uses it.
type Reservation struct {
	covering []*counter
	upload   string // key of the upload's bytes, "" for a link
	taken    int64
}

// Reserve begins a reservation for the upload of that ID, which has the given number of bytes, or for a
// link, with neither. It returns nil if no quota covers the repository.
func (all *Quotas) Reserve(name oci.Name, upload string, bytes int64) *Reservation {
	if all == nil {
		return nil
	}
	res := &Reservation{}
	if upload != "" {
		res.upload = layout.UploadData(name, upload)
	}
	for _, c := range all.list {
		if c.Covers(name) {
			res.covering = append(res.covering, c)
		}
	}
	if res.covering == nil {
		return nil
	}
	for _, c := range res.covering {
		c.begin(res, bytes)
	}
	return res
}

// Take charges n bytes that are about to be stored. Without room it counts the storage again,
// unless that was done lately. The error is an *oci.Error with DENIED and ErrExceeded inside
// if there is no room then, else the store's.
func (res *Reservation) Take(ctx context.Context, n int64) error {
	if res == nil || n <= 0 {
		return nil
	}
	for i, c := range res.covering {
		if err := c.take(ctx, res, n); err != nil {
			for _, c := range res.covering[:i] {
				c.give(res, n)
			}
			return err
		}
	}
	res.taken += n
	return nil
}

// Settle ends the reservation: of the bytes that were taken, kept are stored, and the others are free
// again. A negative number also frees bytes that were stored before.
func (res *Reservation) Settle(kept int64) {
	if res == nil {
		return
	}
	for _, c := range res.covering {
		c.end(res, res.taken-kept)
	}
}

// Keep ends the reservation: all bytes that were taken are stored.
func (res *Reservation) Keep() {
	if res != nil {
		res.Settle(res.taken)
	}
}

// Meter takes bytes of a reservation as they are read. Over the quota, reading fails with Refused.
type Meter struct {
	ctx         context.Context //nolint:containedctx // of the request that reads
	src         io.Reader
	reservation *Reservation
	left        int64 // taken and not read yet
	Refused     error
}

// NewMeter returns a meter of a body, of which size bytes are taken already.
func NewMeter(ctx context.Context, src io.Reader, reservation *Reservation, size int64) *Meter {
	return &Meter{ctx: ctx, src: src, reservation: reservation, left: size}
}

// Read implements io.Reader.
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	if m.left -= int64(n); m.left < 0 {
		if m.Refused = m.reservation.Take(m.ctx, -m.left); m.Refused != nil {
			return 0, m.Refused
		}
		m.left = 0
	}
	return n, err
}
