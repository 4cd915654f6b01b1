package registry

import (
	"context"
	"sync"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

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

	mu      sync.Mutex // guards onTaken
	taken   chan struct{}
	onTaken func()
	busy    chan struct{} // guarded by sessions.mu
	done    bool          // committed or cancelled
	looks   bool          // the client will look at the blob
}

// StartUpload begins an upload. alg is the algorithm of the digest that is to be
// expected, "" if nobody said.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	if err := r.reg.takes(ctx); err != nil {
		return nil, err
	}
	if alg == "" {
		alg = oci.SHA256
	}
	u := r.newUpload(layout.NewUploadID())
	u.progress = progress{startedAt: r.reg.now().UTC().Truncate(time.Second), alg: alg, hash: alg.New(), empty: true}
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

// WillLook says that the client is one that looks at a blob as soon as it has
// uploaded it.
func (u *Upload) WillLook() { u.looks = true }

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
	if u.empty {
		if u.empty, err = u.stillEmpty(ctx); u.empty || err != nil {
			return err
		}
	}
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

// emptyTrusted is how long after its begin an upload without bytes is taken to
// be there still: a purge by another process does not come that soon.
const emptyTrusted = 10 * time.Minute

// stillEmpty says whether an upload that was begun here and got no bytes here has
// none yet. One look tells: it may have got some at another replica.
func (u *Upload) stillEmpty(ctx context.Context) (bool, error) {
	if u.repo.reg.now().Sub(u.startedAt) > emptyTrusted {
		return false, nil
	}
	_, err := u.repo.reg.driver.Stat(ctx, u.dataPath())
	if absent(err) {
		return true, nil
	}
	return false, fault(err)
}

// rewind forgets the running hash and begins one of the algorithm.
func (u *Upload) rewind(alg oci.Algorithm) {
	if alg == "" {
		alg = oci.SHA256
	}
	u.alg, u.hash, u.hashed = alg, alg.New(), 0
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
