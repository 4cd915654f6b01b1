// Package upload receives blobs: it appends what clients send to uploads of the store and hashes
// it, has a later request take over from an earlier one, resumes what another request or
// process has left, seals what is complete, and lists and purges what nobody finishes. The
// rules in package registry decide what may be pushed and where the bytes go.
//
// Errors are *oci.Error for what a client does wrong, else those of the store.
package upload

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
	"slipway/registry/internal/storage"
)

// Receiver begins uploads and goes on with them. All methods are safe for concurrent use.
type Receiver struct {
	store     *view.View
	log       *zap.Logger
	now       func() time.Time
	holders   holders
	announced *cache.Cache[string, struct{}] // uploads begun by this process that have no bytes yet
}

// maxAnnounced bounds the number of uploads in Receiver.announced.
const maxAnnounced = 4 << 10

// New makes a receiver. It does no I/O.
func New(store *view.View, log *zap.Logger, now func() time.Time) *Receiver {
	return &Receiver{
		store: store, log: log, now: now,
		holders: holders{live: map[string]*Upload{}}, announced: cache.New[string, struct{}](maxAnnounced),
	}
}

// Point is where a request continues an upload. The zero value stands for
// wherever the upload ends.
type Point struct {
	Exact     bool // only at Offset
	Offset    int64
	StartedAt time.Time // what the client was told, zero if that is not known
	// Algorithm is that of the digest to come, as the client said when it began; "" if
	// nobody said.
	Algorithm oci.Algorithm
}

// Status describes an upload under way.
type Status struct {
	Size      int64
	StartedAt time.Time
}

// Start begins an upload. alg is the algorithm of the digest that is
// expected, "" if nobody said.
func (r *Receiver) Start(ctx context.Context, name oci.Name, alg oci.Algorithm) (*Upload, error) {
	return r.start(ctx, name, alg, false)
}

// StartWhole begins an upload of a blob that comes with this request, of size bytes if that is
// not negative.
func (r *Receiver) StartWhole(ctx context.Context, name oci.Name, d oci.Digest, size int64) (*Upload, error) {
	u, err := r.start(ctx, name, d.Algorithm(), r.store.Remote)
	if err != nil {
		return nil, err
	}
	u.Expect(d, size)
	return u, nil
}

func (r *Receiver) start(ctx context.Context, name oci.Name, alg oci.Algorithm, single bool) (*Upload, error) {
	u := r.newUpload(name, layout.NewUploadID())
	defer u.unlock()
	u.startedAt, u.single = r.now().UTC().Truncate(time.Second), single
	u.rewind(alg)
	if !single {
		started := storage.Change{Key: layout.UploadStartedAt(name, u.id), Content: layout.StartedAt(u.startedAt), Ephemeral: true}
		if err := r.store.Apply(ctx, nil, storage.Stage{started}); err != nil {
			return nil, err
		}
	}
	return u, r.holders.take(ctx, u, Point{})
}

// Resume takes an upload over. A request that still holds it fails from then on
// with storage.ErrUploadTaken; one that is committing is waited for. BLOB_UPLOAD_UNKNOWN;
// RANGE_INVALID if the upload does not end at the offset: then nobody is disturbed.
func (r *Receiver) Resume(ctx context.Context, name oci.Name, id string, at Point) (*Upload, error) {
	if !layout.ValidUploadID(id) {
		return nil, unknown()
	}
	u := r.newUpload(name, id)
	defer u.unlock()
	if err := r.holders.take(ctx, u, at); err != nil {
		return nil, err
	}
	if err := u.open(ctx, at); err != nil {
		u.suspend() //nolint:errcheck // err says more
		r.holders.release(u)
		return nil, err
	}
	return u, nil
}

// Status looks at an upload without taking it over. BLOB_UPLOAD_UNKNOWN.
func (r *Receiver) Status(ctx context.Context, name oci.Name, id string) (Status, error) {
	if !layout.ValidUploadID(id) {
		return Status{}, unknown()
	}
	startedAt, err := r.startedAt(ctx, name, id)
	if err != nil {
		return Status{}, err
	}
	info, err := r.store.Stat(ctx, layout.UploadData(name, id))
	size := max(info.Size, r.holders.size(holderKey(name, id))) // a store may show it late
	return Status{Size: size, StartedAt: startedAt}, unlessAbsent(err)
}

func (r *Receiver) startedAt(ctx context.Context, name oci.Name, id string) (time.Time, error) {
	b, _, err := storage.Read(ctx, r.store, layout.UploadStartedAt(name, id), layout.MaxLink)
	if absent(err) {
		return time.Time{}, unknown()
	}
	if err != nil {
		return time.Time{}, err
	}
	t, err := layout.ParseStartedAt(b)
	if err != nil {
		return time.Time{}, &oci.Error{Code: oci.CodeBlobUploadUnknown, Err: err}
	}
	return t, nil
}

func unknown() error { return &oci.Error{Code: oci.CodeBlobUploadUnknown} }

func absent(err error) bool { return errors.Is(err, storage.ErrNotExist) }

// unlessAbsent is err, or nil if it only says that there is nothing.
func unlessAbsent(err error) error {
	if absent(err) {
		return nil
	}
	return err
}
