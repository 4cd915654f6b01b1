package upload

import (
	"context"
	"fmt"
	"hash"
	"sync/atomic"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// progress is how far an upload had come.
type progress struct {
	size  int64
	state []byte // the running hash, nil if there was none
}

// Upload is one request's hold on a blob that is being received. One goroutine
// uses it, and closes it.
type Upload struct {
	in        *Receiver
	name      oci.Name
	id        string
	key       string // among the holders
	startedAt time.Time
	hint      storage.UploadOptions

	turn    chan struct{}  // holds a token while the fields below are used
	w       storage.Upload // nil while there is nothing to write to or to read
	begun   bool           // the store has the upload
	foreign bool           // more than startedat may lie beside the bytes
	single  bool           // it ends with this request: nothing says that it has begun
	done    bool           // committed or cancelled
	size    int64
	opened  progress // what it was when this request began
	alg     oci.Algorithm
	hash    hash.Hash
	hashed  int64        // bytes in hash
	told    atomic.Int64 // size, for Status

	taken context.Context // ends when another request has taken the upload over
	stop  context.CancelFunc
}

// newUpload returns an upload whose turn the caller has.
func (r *Receiver) newUpload(name oci.Name, id string) *Upload {
	u := &Upload{in: r, name: name, id: id, key: holderKey(name, id), turn: make(chan struct{}, 1)}
	u.taken, u.stop = context.WithCancel(context.Background())
	u.turn <- struct{}{}
	return u
}

// ID names the upload in its URL.
func (u *Upload) ID() string { return u.id }

// Size is the number of bytes received so far, over all requests.
func (u *Upload) Size() int64 { return u.size }

// StartedAt is when the upload was begun, in seconds.
func (u *Upload) StartedAt() time.Time { return u.startedAt }

// Algorithm is that of the running hash.
func (u *Upload) Algorithm() oci.Algorithm { return u.alg }

// Taken ends when another request has taken the upload over.
func (u *Upload) Taken() context.Context { return u.taken }

// Expect says which digest the upload will have, and how many bytes are to come, if
// not negative.
func (u *Upload) Expect(d oci.Digest, size int64) {
	u.turn <- struct{}{}
	defer u.unlock()
	if u.size == 0 {
		u.rewind(d.Algorithm())
	}
	u.hint.Final, u.hint.Size = layout.BlobData(d), size
}

// open finds the upload in the store. One without bytes has only a startedat.
func (u *Upload) open(ctx context.Context, at Point) error {
	u.rewind(at.Algorithm)
	_, announced := u.in.announced.Get(u.key)
	u.in.announced.Forget(u.key)
	u.startedAt = at.StartedAt
	if announced && at.Exact && at.Offset == 0 && !at.StartedAt.IsZero() {
		return nil
	}
	if err := u.takeOver(ctx); unlessAbsent(err) != nil {
		return err
	}
	var err error
	switch {
	case u.startedAt.IsZero():
		u.startedAt, err = u.in.startedAt(ctx, u.name, u.id)
	case !u.begun:
		_, err = u.in.store.Stat(ctx, layout.UploadStartedAt(u.name, u.id))
	}
	switch {
	case absent(err):
		return unknown()
	case err != nil:
		return err
	case at.Exact && u.size != at.Offset:
		return wrongOffset(u.size, at.Offset)
	}
	return nil
}

// takeOver makes this request the holder of the store's upload.
func (u *Upload) takeOver(ctx context.Context) error {
	w, err := u.in.store.OpenUpload(ctx, u.dataKey(), storage.UploadOptions{})
	if err != nil {
		return err
	}
	u.w, u.begun = w, true
	var state []byte
	u.size, state = w.Progress()
	u.opened = progress{u.size, state}
	u.foreign = !u.restore(state)
	return nil
}

func wrongOffset(size, offset int64) error {
	return oci.NewError(oci.CodeRangeInvalid, fmt.Sprintf("the upload has %d bytes; it does not continue at byte %d", size, offset))
}

// Cancel removes the upload and all that it wrote.
func (u *Upload) Cancel(ctx context.Context) error {
	if u.done {
		return unknown()
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	defer u.unlock()
	if u.w != nil {
		if err := u.w.Cancel(ctx); err != nil {
			return err
		}
		u.w = nil
	}
	u.done = true
	if u.single {
		return nil
	}
	return u.clearAll(ctx)
}

// clearAll deletes all objects of the upload; for distribution, which has directories in
// directories, durably, as that leaves no empty ones.
func (u *Upload) clearAll(ctx context.Context) error {
	keys, err := u.in.store.Keys(ctx, layout.Upload(u.name, u.id))
	if err != nil || len(keys) == 0 {
		return err
	}
	var stage storage.Stage
	for _, key := range keys {
		stage = append(stage, storage.Change{Key: key, Delete: true, Ephemeral: !u.foreign})
	}
	return u.in.store.Apply(ctx, nil, stage)
}

// Close ends the request's hold. Unless it was committed or cancelled, the
// upload stays and can be resumed.
func (u *Upload) Close() error {
	u.turn <- struct{}{}
	defer u.unlock()
	defer u.in.holders.release(u)
	err := u.suspend()
	if err == nil && !u.done && !u.begun && u.taken.Err() == nil {
		u.in.announced.Put(u.key, struct{}{}, 1)
	}
	return err
}

// suspend leaves the upload with its running hash to the next request.
func (u *Upload) suspend() error {
	if u.w == nil {
		return nil
	}
	w := u.w
	u.w = nil
	return w.Suspend(context.Background(), u.size, u.snapshot())
}

func (u *Upload) dataKey() string { return layout.UploadData(u.name, u.id) }

// lock takes the upload's turn. storage.ErrUploadTaken if another request has taken the upload
// over.
func (u *Upload) lock(ctx context.Context) error {
	select {
	case u.turn <- struct{}{}:
	default:
		select {
		case u.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if u.taken.Err() != nil {
		u.unlock()
		return storage.ErrUploadTaken
	}
	return nil
}

func (u *Upload) unlock() { <-u.turn }
