package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

const (
	bufferSize   = 256 << 10 // what one upload holds in memory
	worthWriting = 64 << 10  // what it writes at once, unless it ends before
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// UploadStatus describes an upload under way.
type UploadStatus struct {
	Size      int64
	StartedAt time.Time
}

// Upload is one request's hold on a blob that is being received. One goroutine
// uses it, and closes it.
type Upload struct {
	repo Repository
	id   string
	key  string        // among the sessions
	w    driver.Upload // nil until there are bytes to write or to read
	size int64
	progress

	taken chan struct{}
	busy  chan struct{} // guarded by sessions.mu
	done  bool          // committed or cancelled
}

// StartUpload begins an upload. alg is the algorithm of the digest that is to be
// expected, "" if nobody said.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	if err := r.reg.writable(); err != nil {
		return nil, err
	}
	if alg == "" {
		alg = oci.SHA256
	}
	u := r.newUpload(layout.NewUploadID())
	u.progress = progress{startedAt: r.reg.now().UTC().Truncate(time.Second), alg: alg, hash: alg.New()}
	err := r.reg.driver.WriteScratch(ctx, layout.UploadStartedAt(r.name, u.id), layout.StartedAt(u.startedAt))
	if err != nil {
		return nil, fault(err)
	}
	if err := r.reg.uploads.take(ctx, u); err != nil {
		return nil, fault(err)
	}
	r.reg.uploads.end(u)
	return u, nil
}

// ResumeUpload takes an upload up. A request that still holds it fails from
// then on with ErrUploadTaken; one that is committing is waited for.
// BLOB_UPLOAD_UNKNOWN.
func (r Repository) ResumeUpload(ctx context.Context, id string) (*Upload, error) {
	if err := r.reg.writable(); err != nil {
		return nil, err
	}
	if !layout.ValidUploadID(id) {
		return nil, uploadUnknown()
	}
	u := r.newUpload(id)
	if err := r.reg.uploads.take(ctx, u); err != nil {
		return nil, fault(err)
	}
	defer r.reg.uploads.end(u)
	if err := u.open(ctx); err != nil {
		r.reg.uploads.release(u, true)
		return nil, err
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
	size, err := r.reg.driver.UploadSize(ctx, layout.UploadData(r.name, id))
	if err != nil && !absent(err) {
		return UploadStatus{}, fault(err)
	}
	return UploadStatus{Size: size, StartedAt: startedAt}, nil
}

func (r Repository) newUpload(id string) *Upload {
	return &Upload{repo: r, id: id, key: sessionKey(r.name, id), taken: make(chan struct{})}
}

func (r Repository) startedAt(ctx context.Context, id string) (time.Time, error) {
	b, err := r.reg.driver.ReadFile(ctx, layout.UploadStartedAt(r.name, id), layout.MaxLink)
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

// Taken is closed when another request takes the upload over: whoever waits for
// bytes on behalf of this one should stop.
func (u *Upload) Taken() <-chan struct{} { return u.taken }

// Append stores what src gives until it ends, and returns how much that was.
// What arrived before an error stays. A failure of src comes back wrapped.
func (u *Upload) Append(ctx context.Context, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	var total int64
	for {
		n, rerr := fill(buf[:], src)
		if n > 0 {
			written, err := u.write(ctx, buf[:n])
			total += int64(written)
			if err != nil {
				return total, fault(err)
			}
		}
		if rerr == io.EOF {
			return total, nil
		}
		if rerr != nil {
			return total, u.interrupted(rerr)
		}
	}
}

// fill reads enough to be worth a write: a connection gives its bytes in small
// pieces.
func fill(buf []byte, src io.Reader) (n int, err error) {
	for n < worthWriting && err == nil {
		var m int
		m, err = src.Read(buf[n:])
		n += m
	}
	return n, err
}

// interrupted is the error of a src that failed, perhaps because somebody saw
// that the upload was taken over.
func (u *Upload) interrupted(cause error) error {
	select {
	case <-u.taken:
		return fault(fmt.Errorf("%w: %w", ErrUploadTaken, cause))
	default:
		return fmt.Errorf("receiving the upload: %w", cause)
	}
}

func (u *Upload) write(ctx context.Context, p []byte) (int, error) {
	if err := u.ready(ctx); err != nil {
		return 0, err
	}
	n, err := u.w.Write(p)
	if u.hash != nil && u.hashed == u.size {
		u.hash.Write(p[:n]) //nolint:errcheck // a hash never fails
		u.hashed += int64(n)
	}
	u.size += int64(n)
	if err != nil && u.w.Size() != u.size {
		u.size, u.hash = u.w.Size(), nil
	}
	return n, err
}

// ready makes sure that there is something to write to and that it is still
// this request's turn. Only its holder may create the object of an upload, and
// nobody takes over meanwhile: the driver fences writers from when there is one.
func (u *Upload) ready(ctx context.Context) error {
	select {
	case <-u.taken:
		return ErrUploadTaken
	default:
	}
	if u.w != nil {
		return nil
	}
	if err := u.repo.reg.uploads.begin(u); err != nil {
		return err
	}
	defer u.repo.reg.uploads.end(u)
	return u.create(ctx)
}

// create begins the object of an upload that has none: the first request of a
// push often brings no bytes.
func (u *Upload) create(ctx context.Context) (err error) {
	if u.w == nil {
		u.w, err = u.repo.reg.driver.CreateUpload(ctx, u.dataPath())
	}
	return err
}

func (u *Upload) dataPath() string { return layout.UploadData(u.repo.name, u.id) }

// open finds the upload on the storage. The notes of this process save reading
// when it was begun; that its bytes are there is looked at in any case.
func (u *Upload) open(ctx context.Context) (err error) {
	kept, ok := u.repo.reg.uploads.kept.take(u.key)
	if !ok {
		if kept.startedAt, err = u.repo.startedAt(ctx, u.id); err != nil {
			return err
		}
	}
	u.progress = kept
	u.w, err = u.repo.reg.driver.OpenUpload(ctx, u.dataPath())
	if absent(err) {
		u.w = nil
		u.rewind(u.alg)
		_, err = u.repo.startedAt(ctx, u.id)
		return err
	}
	if err != nil {
		return fault(err)
	}
	u.size = u.w.Size()
	if u.hash == nil || u.hashed > u.size {
		u.rewind(u.alg)
	}
	return nil
}

// rewind forgets the running hash and begins one of the algorithm.
func (u *Upload) rewind(alg oci.Algorithm) {
	if alg == "" {
		alg = oci.SHA256
	}
	u.alg, u.hash, u.hashed = alg, alg.New(), 0
}

// Commit makes the upload a blob of the repository, durably, even if the client
// hangs up meanwhile. On DIGEST_INVALID the upload stays as it is, to be
// committed with the right digest. The bytes are always put in place, over what
// lies there: so a push repairs a damaged blob.
func (u *Upload) Commit(ctx context.Context, d oci.Digest) (oci.Descriptor, error) {
	reg := u.repo.reg
	if u.done {
		return oci.Descriptor{}, uploadUnknown()
	}
	if err := reg.uploads.begin(u); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	defer reg.uploads.end(u)
	if err := u.verify(ctx, d); err != nil {
		return oci.Descriptor{}, err
	}
	if err := u.place(ctx, d); err != nil {
		return oci.Descriptor{}, fault(err)
	}
	u.done = true
	reg.learned(d, u.size)
	reg.seenIn(d, u.repo.name)
	u.discard(ctx)
	return oci.Descriptor{MediaType: mediaTypeBlob, Digest: d, Size: u.size}, nil
}

// verify is nil if the bytes are those of the digest. What this process has not
// hashed as it came in is read again.
func (u *Upload) verify(ctx context.Context, d oci.Digest) error {
	if u.hash == nil || u.alg != d.Algorithm() {
		u.rewind(d.Algorithm())
	}
	if err := u.catchUp(ctx); err != nil {
		return fault(err)
	}
	if got := u.alg.Digest(u.hash.Sum(nil)); got != d {
		return oci.NewError(oci.CodeDigestInvalid, fmt.Sprintf("the content is not that of %s but of %s", d, got))
	}
	return nil
}

func (u *Upload) catchUp(ctx context.Context) error {
	if u.hashed == u.size {
		return nil
	}
	src, err := u.w.Reader(ctx, u.hashed)
	if err != nil {
		return err
	}
	defer src.Close()
	n, err := copyHash(ctx, u.hash, src)
	u.hashed += n
	if err == nil && u.hashed != u.size {
		err = fmt.Errorf("upload has %d bytes instead of %d", u.hashed, u.size)
	}
	if err != nil {
		u.hash = nil
	}
	return err
}

func (u *Upload) place(ctx context.Context, d oci.Digest) error {
	if err := u.create(ctx); err != nil {
		return err
	}
	w := u.w
	u.w = nil
	err := u.repo.reg.commit(ctx, driver.Stage{
		{Path: layout.BlobData(d), Upload: w},
		{Path: layout.LayerLink(u.repo.name, d), Content: layout.Link(d)},
	})
	if err == nil {
		return nil
	}
	if again := u.reopen(ctx); again != nil {
		return errors.Join(err, again)
	}
	return err
}

// reopen takes the bytes up again after a failed commit, if they are still
// there, so that the commit can be tried once more.
func (u *Upload) reopen(ctx context.Context) (err error) {
	u.w, err = u.repo.reg.driver.OpenUpload(context.WithoutCancel(ctx), u.dataPath())
	if err != nil {
		u.w, u.size = nil, 0
		u.rewind(u.alg)
		return err
	}
	if u.w.Size() != u.size {
		u.size = u.w.Size()
		u.rewind(u.alg)
	}
	return nil
}

// Cancel removes the upload and all that it wrote.
func (u *Upload) Cancel(ctx context.Context) error {
	if u.done {
		return uploadUnknown()
	}
	if err := u.repo.reg.uploads.begin(u); err != nil {
		return fault(err)
	}
	defer u.repo.reg.uploads.end(u)
	ctx = context.WithoutCancel(ctx)
	if u.w != nil {
		if err := u.w.Cancel(ctx); err != nil {
			return fault(err)
		}
		u.w = nil
	}
	u.done = true
	return fault(u.repo.reg.driver.Discard(ctx, layout.Upload(u.repo.name, u.id)))
}

// discard removes what is left beside the bytes after a commit. What stays
// behind is no harm: the purge takes it.
func (u *Upload) discard(ctx context.Context) {
	err := u.repo.reg.driver.Discard(context.WithoutCancel(ctx), layout.Upload(u.repo.name, u.id))
	if err != nil {
		u.repo.reg.log.Warn("the rest of an upload stays until the purge",
			zap.String("repository", string(u.repo.name)), zap.String("upload", u.id), zap.Error(err))
	}
}

// Close ends the request's hold. Unless it was committed or cancelled, the
// upload stays to be taken up again.
func (u *Upload) Close() error {
	defer u.repo.reg.uploads.release(u, u.done)
	if u.w == nil {
		return nil
	}
	w := u.w
	u.w = nil
	return fault(w.Close())
}

func uploadUnknown() error { return &oci.Error{Code: oci.CodeBlobUploadUnknown} }
