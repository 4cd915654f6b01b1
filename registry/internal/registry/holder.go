package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

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

// UploadStatus describes an upload in progress.
type UploadStatus struct {
	Size      int64
	StartedAt time.Time
}

// StartUpload begins an upload. alg is the algorithm of the digest that is
// expected, "" if it is unknown.
func (r Repository) StartUpload(ctx context.Context, alg oci.Algorithm) (*Upload, error) {
	return r.startUpload(ctx, alg, false)
}

// StartWhole begins an upload of a blob that comes with this request, of size bytes if that is
// not negative.
func (r Repository) StartWhole(ctx context.Context, d oci.Digest, size int64) (*Upload, error) {
	u, err := r.startUpload(ctx, d.Algorithm(), r.reg.store.Remote)
	if err == nil {
		u.Expect(d, size)
	}
	return u, err
}

func (r Repository) startUpload(ctx context.Context, alg oci.Algorithm, single bool) (*Upload, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	u := r.newUpload(layout.NewUploadID())
	defer u.unlock()
	u.startedAt, u.single = r.reg.now().UTC().Truncate(time.Second), single
	u.rewind(alg)
	if !single {
		started := storage.Change{Key: layout.UploadStartedAt(r.name, u.id), Content: layout.StartedAt(u.startedAt), Ephemeral: true}
		if err := r.reg.store.Apply(ctx, nil, storage.Stage{started}); err != nil {
			return nil, fault(err)
		}
	}
	return u, fault(r.reg.holders.take(ctx, u, UploadPoint{}))
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
		return nil, fault(err)
	}
	if err := u.open(ctx, at); err != nil {
		u.suspend() //nolint:errcheck // err says more
		r.reg.holders.release(u)
		return nil, fault(err)
	}
	return u, nil
}

// UploadStatus describes an upload without taking it over. BLOB_UPLOAD_UNKNOWN.
func (r Repository) UploadStatus(ctx context.Context, id string) (UploadStatus, error) {
	if !layout.ValidUploadID(id) {
		return UploadStatus{}, uploadUnknown()
	}
	startedAt, err := r.uploadStartedAt(ctx, id)
	if err != nil {
		return UploadStatus{}, fault(err)
	}
	info, err := r.reg.store.Stat(ctx, layout.UploadData(r.name, id))
	size := max(info.Size, r.reg.holders.size(holderKey(r.name, id))) // a store may show it late
	return UploadStatus{Size: size, StartedAt: startedAt}, fault(unlessAbsent(err))
}

func (r Repository) uploadStartedAt(ctx context.Context, id string) (time.Time, error) {
	b, _, err := storage.Read(ctx, r.reg.store, layout.UploadStartedAt(r.name, id), layout.MaxLink)
	if absent(err) {
		return time.Time{}, uploadUnknown()
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

// open finds the upload in the store. One without bytes has only a startedat.
func (u *Upload) open(ctx context.Context, at UploadPoint) error {
	u.rewind(at.Algorithm)
	_, announced := u.repo.reg.announced.Get(u.key)
	u.repo.reg.announced.Forget(u.key)
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
		u.startedAt, err = u.repo.uploadStartedAt(ctx, u.id)
	case !u.begun:
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
	u.w, u.begun = w, true
	var state []byte
	u.size, state = w.Progress()
	u.opened = progress{u.size, state}
	u.foreign = !u.restore(state)
	return nil
}

func wrongOffset(size, offset int64) error {
	return oci.Explain(oci.CodeRangeInvalid, fmt.Sprintf("the upload has %d bytes: continue at byte %d, not %d", size, size, offset))
}

// holders maps each upload to the request of this process that holds it, so that a new
// request takes over from one that hangs. Between processes the store fences.
type holders struct {
	mu   sync.Mutex
	live map[string]*Upload
}

// take makes u the holder of its upload, if the holder before it has not gone further than that point.
// The caller must hold u's turn.
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

// size returns the size of the upload if a request holds it, else -1.
func (h *holders) size(key string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.live[key]; u != nil {
		return u.shown.Load()
	}
	return -1
}

// holderKey names an upload among those of all repositories.
func holderKey(name oci.Name, id string) string { return string(name) + "@" + id }

// give yields the upload to another request that continues at that point. It waits for writes and
// commits in progress.
func (u *Upload) give(ctx context.Context, at UploadPoint) error {
	err := u.lock(ctx)
	if errors.Is(err, storage.ErrUploadTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer u.unlock()
	if !u.done && at.Exact && at.Offset != u.size {
		return wrongOffset(u.size, at.Offset)
	}
	u.suspend() //nolint:errcheck // the next holder sees what the store has
	u.stop()
	return nil
}
