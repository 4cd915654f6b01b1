package registry

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Upload is one request's hold on a blob that is being received. One goroutine
// uses it, and closes it.
type Upload struct {
	repo      Repository
	id        string
	key       string // among the holders
	startedAt time.Time
	hint      storage.UploadHint

	turn    chan struct{}  // holds a token while the fields below are used
	w       storage.Upload // nil while there is nothing to write to or to read
	begun   bool           // the store has the upload
	foreign bool           // more than startedat may lie beside the bytes
	whole   bool           // it ends with this request: nothing says that it has begun
	done    bool           // committed or cancelled
	size    int64
	unseen  int64 // size, where it was gone on with without a look and not changed yet
	alg     oci.Algorithm
	hash    hash.Hash
	hashed  int64        // bytes in hash
	told    atomic.Int64 // size, for UploadStatus

	taken context.Context // ends when another request has taken the upload over
	stop  context.CancelFunc
}

// UploadPoint is where a request continues an upload. The zero value stands for
// wherever the upload ends.
type UploadPoint struct {
	Exact     bool // only at Offset
	Offset    int64
	StartedAt time.Time // what the client was told, zero if that is not known
	// Algorithm is that of the digest to come, as the client said when it began; "" if
	// nobody said.
	Algorithm oci.Algorithm
}

// UploadStatus describes an upload under way.
type UploadStatus struct {
	Size      int64
	StartedAt time.Time
}

// StartUpload begins an upload. alg is the algorithm of the digest that is
// expected, "" if nobody said.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	return r.startUpload(ctx, alg, false)
}

// StartWhole begins an upload of a blob that comes with this request, of size bytes if that is
// not negative.
func (r Repository) StartWhole(ctx context.Context, d oci.Digest, size int64) (*Upload, error) {
	u, err := r.startUpload(ctx, d.Algorithm(), r.reg.store.Remote)
	if err != nil {
		return nil, err
	}
	u.Expect(d, size)
	return u, nil
}

func (r Repository) startUpload(ctx context.Context, alg oci.Algorithm, whole bool) (*Upload, error) {
	if err := r.takes(); err != nil {
		return nil, err
	}
	u := r.newUpload(layout.NewUploadID())
	defer u.unlock()
	u.startedAt, u.whole = r.reg.now().UTC().Truncate(time.Second), whole
	u.rewind(alg)
	if !whole {
		started := storage.Change{Key: layout.UploadStartedAt(r.name, u.id), Content: layout.StartedAt(u.startedAt), Ephemeral: true}
		if err := r.reg.store.Apply(ctx, nil, storage.Stage{started}); err != nil {
			return nil, fault(err)
		}
	}
	return u, r.reg.uploads.take(ctx, u, UploadPoint{})
}

// ResumeUpload takes an upload over. A request that still holds it fails from then on
// with ErrUploadTaken; one that is committing is waited for. BLOB_UPLOAD_UNKNOWN;
// RANGE_INVALID if the upload does not end at the offset: then nobody is disturbed.
func (r Repository) ResumeUpload(ctx context.Context, id string, at UploadPoint) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	if !layout.ValidUploadID(id) {
		return nil, uploadUnknown()
	}
	u := r.newUpload(id)
	defer u.unlock()
	if err := r.reg.uploads.take(ctx, u, at); err != nil {
		return nil, fault(err)
	}
	err := u.open(ctx, at)
	if err != nil {
		u.suspend() //nolint:errcheck // err says more
		r.reg.uploads.release(u)
		return nil, fault(err)
	}
	return u, nil
}

// UploadStatus looks at an upload without taking it over. BLOB_UPLOAD_UNKNOWN.
func (r Repository) UploadStatus(ctx context.Context, id string) (UploadStatus, error) {
	if !layout.ValidUploadID(id) {
		return UploadStatus{}, uploadUnknown()
	}
	startedAt, err := r.startedAt(ctx, id)
	if err != nil {
		return UploadStatus{}, err
	}
	info, err := r.reg.store.Stat(ctx, layout.UploadData(r.name, id))
	size := max(info.Size, r.reg.uploads.size(holderKey(r.name, id))) // a store may show it late
	return UploadStatus{Size: size, StartedAt: startedAt}, fault(unlessAbsent(err))
}

// newUpload returns an upload whose turn the caller has.
func (r Repository) newUpload(id string) *Upload {
	u := &Upload{repo: r, id: id, key: holderKey(r.name, id), turn: make(chan struct{}, 1)}
	u.taken, u.stop = context.WithCancel(context.Background())
	u.turn <- struct{}{}
	return u
}

func (r Repository) startedAt(ctx context.Context, id string) (time.Time, error) {
	b, _, err := storage.Read(ctx, r.reg.store, layout.UploadStartedAt(r.name, id), layout.MaxLink)
	if absent(err) {
		return time.Time{}, uploadUnknown()
	}
	if err != nil {
		return time.Time{}, fault(err)
	}
	t, err := layout.ParseStartedAt(b)
	if err != nil {
		return time.Time{}, &oci.Error{Code: oci.CodeBlobUploadUnknown, Err: err}
	}
	return t, nil
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

// Reader reads what the upload holds from offset on. Only if a file is behind it
// (storage.File) may it be read beside a goroutine that appends. The caller closes it.
func (u *Upload) Reader(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if err := u.lock(ctx); err != nil {
		return nil, err
	}
	defer u.unlock()
	return u.reader(ctx, offset)
}

// reader needs the turn. A commit that fails has closed the store's upload.
func (u *Upload) reader(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if err := u.resumed(ctx); err != nil {
		return nil, err
	}
	return u.w.Reader(ctx, offset)
}

// ReadAt reads what the upload holds at the offset, beside a goroutine that appends, which
// waits meanwhile. It returns fewer bytes than p has at the end of the upload.
func (u *Upload) ReadAt(ctx context.Context, p []byte, offset int64) (int, error) {
	if err := u.lock(ctx); err != nil {
		return 0, err
	}
	defer u.unlock()
	src, err := u.reader(ctx, offset)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	n, err := io.ReadFull(src, p)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

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

// open finds the upload in the store. One that has no bytes has only a startedat.
func (u *Upload) open(ctx context.Context, at UploadPoint) (err error) {
	u.rewind(at.Algorithm)
	size, left := u.repo.reg.left.Get(u.key)
	u.repo.reg.left.Forget(u.key)
	if left && at.Exact && at.Offset == size && !at.StartedAt.IsZero() {
		// The client goes on where this process has left it. If somebody else has gone on or ended
		// it meanwhile, that is found out when the bytes are kept.
		u.startedAt = at.StartedAt
		if size == 0 {
			return nil
		}
		u.unseen = size
		return u.takeOver(ctx, at, size)
	}
	info, err := u.repo.reg.store.Stat(ctx, u.dataKey())
	empty := absent(err)
	if unlessAbsent(err) != nil {
		return err
	}
	err = nil
	if u.startedAt = at.StartedAt; u.startedAt.IsZero() {
		u.startedAt, err = u.repo.startedAt(ctx, u.id)
	} else if empty {
		_, err = u.repo.reg.store.Stat(ctx, layout.UploadStartedAt(u.repo.name, u.id))
	}
	switch {
	case absent(err):
		return uploadUnknown()
	case err != nil:
		return err
	case at.Exact && info.Size != at.Offset: // before a holder in another process is fenced
		return wrongOffset(info.Size, at.Offset)
	case empty:
		return nil
	}
	return u.takeOver(ctx, at, info.Size)
}

// takeOver makes this request the holder of the store's upload, which has that size.
func (u *Upload) takeOver(ctx context.Context, at UploadPoint, size int64) (err error) {
	if c, ok := u.repo.reg.store.Store.(storage.Continuer); ok {
		u.w, err = c.ContinueUpload(ctx, u.dataKey(), size)
	} else {
		u.w, err = u.repo.reg.store.ResumeUpload(ctx, u.dataKey())
	}
	if err != nil {
		u.w = nil
		if absent(err) {
			return uploadUnknown()
		}
		return err
	}
	u.begun = true
	var state []byte
	if u.size, state = u.w.Progress(); at.Exact && u.size != at.Offset {
		return wrongOffset(u.size, at.Offset)
	}
	u.foreign = !u.restore(state)
	return nil
}

// outrun is err, or that the client goes on at the wrong offset if the first change of w has found
// that another process has added to what this one remembers.
func (u *Upload) outrun(w storage.Upload, err error) error {
	if u.unseen == 0 || !errors.Is(err, ErrUploadTaken) || u.taken.Err() != nil {
		return err
	}
	size, _ := w.Progress()
	if size <= u.unseen {
		return err
	}
	return wrongOffset(size, u.unseen)
}

func wrongOffset(size, offset int64) error {
	return oci.NewError(oci.CodeRangeInvalid, fmt.Sprintf("the upload has %d bytes; it does not continue at byte %d", size, offset))
}

// rewind forgets the running hash and begins one of the algorithm.
func (u *Upload) rewind(alg oci.Algorithm) {
	if alg == "" {
		alg = oci.SHA256
	}
	u.alg, u.hash, u.hashed = alg, alg.New(), 0
}

// restore takes a running hash up where snapshot left it.
func (u *Upload) restore(state []byte) bool {
	name, inner, ok := bytes.Cut(state, []byte(":"))
	alg, err := oci.ParseAlgorithm(string(name))
	if !ok || err != nil {
		return false
	}
	h := alg.New()
	if h, ok := h.(encoding.BinaryUnmarshaler); !ok || h.UnmarshalBinary(inner) != nil {
		return false
	}
	u.alg, u.hash, u.hashed = alg, h, u.size
	return true
}

// snapshot is the running hash if it has all bytes, else nil.
func (u *Upload) snapshot() []byte {
	h, ok := u.hash.(encoding.BinaryMarshaler)
	if !ok || u.hashed != u.size {
		return nil
	}
	state, err := h.MarshalBinary()
	if err != nil {
		return nil
	}
	return append([]byte(u.alg+":"), state...)
}

// Cancel removes the upload and all that it wrote.
func (u *Upload) Cancel(ctx context.Context) error {
	if u.done {
		return uploadUnknown()
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	if err := u.lock(ctx); err != nil {
		return fault(err)
	}
	defer u.unlock()
	if u.begun { // else there is nothing yet, and perhaps no room to begin
		if err := u.resumed(ctx); err != nil && !absent(err) {
			return fault(err)
		}
	}
	if u.w != nil {
		if err := u.w.Cancel(ctx); err != nil {
			return fault(err)
		}
		u.w = nil
	}
	u.done = true
	switch {
	case u.whole:
		return nil
	case u.repo.reg.store.Remote && u.begun && !u.foreign: // an empty one may be distribution's
		return fault(u.repo.reg.store.Apply(ctx, nil, storage.Stage{u.notStarted()}))
	}
	return fault(u.repo.clearUpload(ctx, u.id))
}

// clearUpload deletes all objects of an upload.
func (r Repository) clearUpload(ctx context.Context, id string) error {
	keys, err := r.reg.store.Keys(ctx, layout.Upload(r.name, id))
	if err != nil || len(keys) == 0 {
		return err
	}
	stage := deletions(keys)
	for i := range stage {
		stage[i].Ephemeral = true
	}
	return r.reg.store.Apply(ctx, nil, stage)
}

// Close ends the request's hold. Unless it was committed or cancelled, the
// upload stays for whoever resumes it.
func (u *Upload) Close() error {
	u.turn <- struct{}{}
	defer u.unlock()
	defer u.repo.reg.uploads.release(u)
	err := u.suspend()
	known := u.begun == (u.size > 0) // else the store has an upload without bytes
	if err == nil && !u.done && u.taken.Err() == nil && known {
		u.repo.reg.left.Put(u.key, u.size, 1)
	}
	return fault(err)
}

// suspend leaves the upload with its running hash to the next request.
func (u *Upload) suspend() error {
	if u.w == nil {
		return nil
	}
	w := u.w
	u.w = nil
	return w.Suspend(context.Background(), u.snapshot())
}

func (u *Upload) dataKey() string { return layout.UploadData(u.repo.name, u.id) }

func uploadUnknown() error { return &oci.Error{Code: oci.CodeBlobUploadUnknown} }

// lock takes the upload's turn. ErrUploadTaken if another request has taken the upload
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
		return ErrUploadTaken
	}
	return nil
}

func (u *Upload) unlock() { <-u.turn }

// give gives the upload up for another request that continues at that point. Writes and
// commits under way are waited for.
func (u *Upload) give(ctx context.Context, at UploadPoint) error {
	err := u.lock(ctx)
	if errors.Is(err, ErrUploadTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer u.unlock()
	if !u.done && at.Exact && at.Offset != u.size {
		return wrongOffset(u.size, at.Offset)
	}
	u.suspend() //nolint:errcheck // the other one sees what the store has
	u.stop()
	return nil
}

// holders knows which request of this process works on which upload, so that a new
// one takes over from one that hangs. Between processes the store fences.
type holders struct {
	mu   sync.Mutex
	live map[string]*Upload
}

// take makes u, whose turn the caller has, the holder of its upload, if the one
// before has not gone further than that point.
func (h *holders) take(ctx context.Context, u *Upload, at UploadPoint) error {
	var before *Upload
	for {
		h.mu.Lock()
		now := h.live[u.key]
		free := now == nil || now == before
		if free {
			h.live[u.key] = u
		}
		h.mu.Unlock()
		if free {
			return nil
		}
		if err := now.give(ctx, at); err != nil {
			return err
		}
		before = now
	}
}

// release ends u's hold, if it still has it.
func (h *holders) release(u *Upload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live[u.key] == u {
		delete(h.live, u.key)
	}
}

// size is the size of the upload if a request works on it, else -1.
func (h *holders) size(key string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.live[key]; u != nil {
		return u.told.Load()
	}
	return -1
}

// holderKey names an upload among those of all repositories.
func holderKey(name oci.Name, id string) string { return string(name) + "@" + id }
