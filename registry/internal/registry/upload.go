package registry

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/storage"
)

// Upload is one request's hold on a blob that is being received. One goroutine
// uses it, and closes it.
type Upload struct {
	repo      Repository
	id        string
	key       string // among the holders
	startedAt time.Time
	hint      storage.UploadOptions

	turn         chan struct{}  // holds a token while the fields below are used
	w            storage.Upload // nil while there is nothing to write to or to read
	phase        phase
	hasStartedAt bool // the store has its startedat; otherwise it ends with the request that began it
	hasMore      bool // perhaps also what distribution keeps: states of its hashes
	size         int64
	opened       progress // what it was when this request began
	alg          oci.Algorithm
	hash         hash.Hash
	hashed       int64        // bytes in hash
	shown        atomic.Int64 // size, for readers without the turn

	taken context.Context // ends when another request has taken the upload over
	stop  context.CancelFunc
}

// phase holds the progress of an upload. It never goes back.
type phase int

const (
	phaseEmpty  phase = iota // no bytes: the store has at most a startedat
	phaseStored              // the store has bytes
	phaseEnded               // committed or cancelled
)

// progress is the state that an upload had reached.
type progress struct {
	size  int64
	state []byte // the running hash, nil if there was none
}

// newUpload returns an upload whose turn the caller has.
func (r Repository) newUpload(id string) *Upload {
	u := &Upload{repo: r, id: id, key: holderKey(r.name, id), hasStartedAt: true, turn: make(chan struct{}, 1)}
	u.taken, u.stop = context.WithCancel(context.Background())
	u.turn <- struct{}{}
	return u
}

// ID names the upload in its URL.
func (u *Upload) ID() string { return u.id }

// Size returns the number of bytes received so far, over all requests.
func (u *Upload) Size() int64 { return u.size }

// StartedAt returns the time at which the upload was begun, in seconds.
func (u *Upload) StartedAt() time.Time { return u.startedAt }

// Algorithm returns the algorithm of the running hash.
func (u *Upload) Algorithm() oci.Algorithm { return u.alg }

// Taken returns a context that is done once another request has taken the upload over.
func (u *Upload) Taken() context.Context { return u.taken }

// UploadPoint is the position at which a request continues an upload. The zero value stands for
// wherever the upload ends.
type UploadPoint struct {
	Exact     bool // only at Offset
	Offset    int64
	StartedAt time.Time // as the client knows it, zero if that is unknown
	// Algorithm is that of the digest to come, as the client named it when it began; "" if
	// it named none.
	Algorithm oci.Algorithm
}

// StartUpload begins an upload. alg is the algorithm of the digest that is
// expected, "" if it is unknown.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	return r.startUpload(ctx, alg, true)
}

// StartWhole begins an upload of a blob that comes with this request, of size bytes if that is
// not negative.
func (r Repository) StartWhole(ctx context.Context, d oci.Digest, size int64) (*Upload, error) {
	u, err := r.startUpload(ctx, d.Algorithm(), !r.reg.store.Remote)
	if err == nil {
		u.Expect(d, size)
	}
	return u, err
}

func (r Repository) startUpload(ctx context.Context, alg oci.Algorithm, hasStartedAt bool) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	u := r.newUpload(layout.NewUploadID())
	defer u.unlock()
	u.startedAt, u.hasStartedAt = r.reg.now().UTC().Truncate(time.Second), hasStartedAt
	u.rewind(alg)
	if hasStartedAt {
		started := storage.Change{Key: layout.UploadStartedAt(r.name, u.id), Content: layout.StartedAt(u.startedAt), Ephemeral: true}
		if err := r.reg.store.Apply(ctx, nil, storage.Stage{started}); err != nil {
			return nil, err
		}
	}
	return u, r.reg.holders.take(ctx, u, UploadPoint{})
}

// ResumeUpload takes an upload over. A request that still holds it fails from then on
// with ErrUploadTaken, but a commit in progress is waited for. BLOB_UPLOAD_UNKNOWN;
// RANGE_INVALID, without an effect on the holder, if the upload doesn't end at the offset.
func (r Repository) ResumeUpload(ctx context.Context, id string, at UploadPoint) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	if !layout.ValidUploadID(id) {
		return nil, uploadUnknown()
	}
	u := r.newUpload(id)
	defer u.unlock()
	if err := r.reg.holders.take(ctx, u, at); err != nil {
		return nil, err
	}
	if err := u.open(ctx, at); err != nil {
		u.suspend() //nolint:errcheck // err says more
		r.reg.holders.release(u)
		return nil, err
	}
	return u, nil
}

// open finds the upload in the store. One without bytes has only a startedat.
func (u *Upload) open(ctx context.Context, at UploadPoint) error {
	u.rewind(at.Algorithm)
	_, unwritten := u.repo.reg.unwritten.Get(u.key)
	u.repo.reg.unwritten.Forget(u.key)
	u.startedAt = at.StartedAt
	if unwritten && at.Exact && at.Offset == 0 && !at.StartedAt.IsZero() {
		return nil
	}
	if err := u.takeOver(ctx); unlessAbsent(err) != nil {
		return err
	}
	var err error
	switch {
	case u.startedAt.IsZero():
		u.startedAt, err = u.repo.uploadStartedAt(ctx, u.id)
	case u.phase == phaseEmpty:
		_, err = u.repo.reg.store.Stat(ctx, layout.UploadStartedAt(u.repo.name, u.id))
	}
	switch {
	case absent(err):
		return uploadUnknown()
	case err != nil:
		return err
	case at.Exact && u.size != at.Offset:
		return wrongOffset(u.size, at.Offset)
	}
	return nil
}

// takeOver makes this request the holder of the store's upload.
func (u *Upload) takeOver(ctx context.Context) error {
	w, err := u.repo.reg.store.OpenUpload(ctx, u.dataKey(), storage.UploadOptions{})
	if err != nil {
		return err
	}
	u.w, u.phase = w, phaseStored
	var state []byte
	u.size, state = w.Progress()
	u.opened = progress{u.size, state}
	u.hasMore = !u.restore(state)
	return nil
}

func wrongOffset(size, offset int64) error {
	return oci.Explain(oci.CodeRangeInvalid, fmt.Sprintf("the upload has %d bytes: continue at byte %d, not %d", size, size, offset))
}

// Expect announces the digest and the remaining size (negative: unknown).
func (u *Upload) Expect(d oci.Digest, size int64) {
	u.turn <- struct{}{}
	defer u.unlock()
	if u.size == 0 {
		u.rewind(d.Algorithm())
	}
	u.hint.Final, u.hint.Size = layout.BlobData(d), size
}

// ErrSource is wrapped by the error of an Append whose src has failed.
var ErrSource = errors.New("receiving the upload")

// Append stores what src gives until it ends, and returns how much that was: size bytes,
// or a number not known before if size is negative. What arrived before an error stays. A
// failure of src comes back wrapped in ErrSource. DENIED, with quota.ErrExceeded inside, if a quota has
// no room.
func (u *Upload) Append(ctx context.Context, src io.Reader, size int64) (int64, error) {
	if err := u.repo.writable(); err != nil {
		return 0, err
	}
	h := u.repo.reserve(u.id, u.size)
	if h == nil {
		return u.receive(ctx, src)
	}
	before := u.size
	defer func() { h.Settle(u.size - before) }()
	if err := h.Take(ctx, size); err != nil {
		return 0, err
	}
	m := quota.NewMeter(ctx, src, h, max(size, 0))
	n, err := u.receive(ctx, m)
	if m.Refused != nil {
		err = m.Refused
	}
	return n, err
}

const (
	bufferSize   = 256 << 10 // what one upload holds in memory
	worthWriting = 64 << 10  // what it writes at once, unless it ends before
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (u *Upload) receive(ctx context.Context, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	var total int64
	for {
		n, rerr := fill(buf[:], src)
		if n > 0 {
			written, err := u.write(ctx, buf[:n])
			total += int64(written)
			if absent(err) { // another process has ended it
				return total, uploadUnknown()
			}
			if err != nil {
				return total, err
			}
		}
		if rerr == io.EOF { //nolint:errorlint // readers end with EOF itself
			return total, nil
		}
		if rerr != nil {
			return total, u.interrupted(rerr)
		}
	}
}

// fill reads until the buffer is worth a write: a connection delivers its bytes in
// small pieces.
func fill(buf []byte, src io.Reader) (n int, err error) {
	for n < worthWriting && err == nil {
		var m int
		m, err = src.Read(buf[n:])
		n += m
	}
	return n, err
}

// interrupted returns the error of a src that failed, perhaps because the upload was taken over.
func (u *Upload) interrupted(cause error) error {
	if u.taken.Err() != nil {
		return fmt.Errorf("%w: %w", storage.ErrUploadTaken, cause)
	}
	return fmt.Errorf("%w: %w", ErrSource, cause)
}

func (u *Upload) write(ctx context.Context, p []byte) (int, error) {
	if err := u.lock(ctx); err != nil {
		return 0, err
	}
	defer u.unlock()
	if err := u.resumed(ctx); err != nil {
		return 0, err
	}
	n, err := u.w.Write(p)
	if u.hashed == u.size {
		u.hash.Write(p[:n]) //nolint:errcheck // a hash never fails
		u.hashed += int64(n)
	}
	u.size += int64(n)
	u.shown.Store(u.size)
	switch {
	case errors.Is(err, storage.ErrNoSpace):
		u.drop()
		return 0, err
	case err != nil:
		if size, _ := u.w.Progress(); size != u.size {
			u.size = size
			u.rewind(u.alg)
		}
	}
	return n, err
}

// resumed opens the store's upload if it isn't open: the first request of a push often
// has no body, and a failed commit closes it.
func (u *Upload) resumed(ctx context.Context) (err error) {
	if u.w != nil {
		return nil
	}
	o := u.hint
	o.Create = u.phase == phaseEmpty
	u.w, err = u.repo.reg.store.OpenUpload(ctx, u.dataKey(), o)
	if isConflict(err) {
		err = fmt.Errorf("%w: %w", storage.ErrUploadTaken, err)
	}
	if err != nil {
		u.w = nil
		return err
	}
	u.phase = phaseStored
	if size, _ := u.w.Progress(); size != u.size {
		u.size = size
		u.rewind(u.alg)
	}
	return nil
}

// Commit makes the upload a blob of the repository, durably, even if the client
// hangs up meanwhile. On DIGEST_INVALID the upload stays as it is, to be
// committed with the right digest. The bytes are always put in place, over what
// is there: so a push repairs a damaged blob.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	if err := u.repo.writable(); err != nil {
		return oci.Descriptor{}, err
	}
	if err := u.seal(ctx, d); err != nil {
		return oci.Descriptor{}, err
	}
	link, before := layout.LayerLink(u.repo.name, d), u.size
	freed := int64(0) // of the bytes that the quota counts for the upload
	var err error
	if h := u.repo.reserve(u.id, before); h != nil {
		defer func() { h.Settle(-freed) }()
		if _, err = u.repo.reg.store.Stat(ctx, link); err == nil { // the repository has them already
			freed = before
		}
		err = unlessAbsent(err)
	}
	if err == nil {
		err = u.repo.apply(ctx, storage.Stage{{Key: layout.BlobData(d), Upload: u.w}, {Key: link, Content: layout.Link(d)}})
	}
	if err := u.finish(ctx, err); err != nil {
		freed = before - u.size
		return oci.Descriptor{}, err
	}
	u.repo.reg.doubted.Forget(link)
	u.repo.reg.blobs.Forget(d)
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: u.size}, nil
}

// seal takes the turn until finish if the bytes have the digest. On DIGEST_INVALID the upload is
// unchanged.
func (u *Upload) seal(ctx context.Context, d oci.Digest) error {
	if u.phase == phaseEnded {
		return uploadUnknown()
	}
	if err := u.lock(ctx); err != nil {
		return err
	}
	err := u.verify(ctx, d)
	if err == nil {
		err = u.resumed(ctx)
	}
	if err != nil {
		u.unlock()
	}
	return err
}

// finish ends what seal began. failed is the error of the commit, nil if the bytes are in
// place. Otherwise the upload can be sealed again, unless its bytes are in doubt (see
// [storage.Change]); if the storage is full it loses what this request brought.
func (u *Upload) finish(ctx context.Context, failed error) error {
	defer u.unlock()
	if failed == nil {
		u.phase, u.w = phaseEnded, nil
		u.clear(context.WithoutCancel(ctx))
		return nil
	}
	if errors.Is(failed, storage.ErrNoSpace) {
		u.drop()
	}
	if absent(failed) { // another process has ended it
		return uploadUnknown()
	}
	return failed
}

// drop truncates the upload to the bytes before this request: a full storage keeps
// only what was acknowledged. A failure is ignored.
func (u *Upload) drop() {
	w := u.w
	u.w = nil
	if w == nil || w.Suspend(context.Background(), u.opened.size, u.opened.state) != nil {
		return
	}
	u.size = u.opened.size
	if u.shown.Store(u.size); !u.restore(u.opened.state) {
		u.rewind(u.alg)
	}
}

// clear removes what the upload has beside its bytes, after a commit. The purge removes what this leaves.
func (u *Upload) clear(ctx context.Context) {
	var err error
	switch {
	case u.hasMore:
		err = u.deleteAll(ctx)
	case u.hasStartedAt:
		started := storage.Change{Key: layout.UploadStartedAt(u.repo.name, u.id), Delete: true, Ephemeral: true}
		err = u.repo.reg.store.Apply(ctx, nil, storage.Stage{started})
	}
	if err != nil {
		u.repo.reg.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.repo.name)), zap.String("upload", u.id), zap.Error(err))
	}
}

// deleteAll deletes all objects of the upload durably, which leaves no empty directories for distribution to find.
func (u *Upload) deleteAll(ctx context.Context) error {
	keys, err := u.repo.reg.store.Keys(ctx, layout.Upload(u.repo.name, u.id))
	if err != nil {
		return err
	}
	return u.repo.deleteKeys(ctx, keys)
}

// Cancel removes the upload and all that it wrote.
func (u *Upload) Cancel(ctx context.Context) error {
	ctx, cancel := detach(ctx)
	defer cancel()
	size := u.size
	h := u.repo.reserve(u.id, size)
	err := u.cancel(ctx)
	if err != nil {
		size = 0
	}
	h.Settle(-size)
	return err
}

func (u *Upload) cancel(ctx context.Context) error {
	if u.phase == phaseEnded {
		return uploadUnknown()
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
	u.phase = phaseEnded
	if !u.hasStartedAt {
		return nil
	}
	return u.deleteAll(ctx)
}

// Close ends the request's hold. Unless it was committed or cancelled, the
// upload stays and can be resumed.
func (u *Upload) Close() error {
	u.turn <- struct{}{}
	defer u.unlock()
	defer u.repo.reg.holders.release(u)
	err := u.suspend()
	if err == nil && u.phase == phaseEmpty && u.taken.Err() == nil {
		u.repo.reg.unwritten.Put(u.key, struct{}{}, 1)
	}
	return err
}

// suspend stores the upload and its running hash for the next request.
func (u *Upload) suspend() error {
	if u.w == nil {
		return nil
	}
	w := u.w
	u.w = nil
	return w.Suspend(context.Background(), u.size, u.snapshot())
}

func (u *Upload) dataKey() string { return layout.UploadData(u.repo.name, u.id) }

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

func uploadUnknown() error { return &oci.Error{Code: oci.CodeBlobUploadUnknown} }
