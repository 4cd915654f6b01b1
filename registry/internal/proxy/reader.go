package proxy

import (
	"context"
	"errors"
	"io"

	"slipway/registry/internal/storage"
)

// reader is one client of a flight. One goroutine uses it.
type reader struct {
	f    *flight
	ctx  context.Context
	at   int64         // guarded by f.mu
	file bool          // src needs the store no more; guarded by f.mu
	src  io.ReadCloser // where the bytes at at begin; nil = to be opened
	stop func() bool
	cut  context.CancelCauseFunc
	left *remnant // of an upload that may not become a blob; guarded by f.mu

	again bool // the store was tried in place of the upload
}

// attach adds a reader, unless what it needs has passed.
func (f *flight) attach(ctx context.Context) (*reader, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == failed || f.stuck || f.live && f.at > f.from || f.live && f.state == kept {
		return nil, false
	}
	r := &reader{f: f}
	r.ctx, r.cut = context.WithCancelCause(ctx)
	f.readers[r] = true
	r.stop = context.AfterFunc(r.ctx, func() { f.set(func() {}) })
	return r, true
}

// ready waits until the size of the blob is known.
func (r *reader) ready(ctx context.Context) (int64, error) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.size < 0 && f.state != failed && ctx.Err() == nil {
		f.cond.Wait()
	}
	switch {
	case f.state == failed:
		return 0, f.err
	case ctx.Err() != nil:
		return 0, ctx.Err()
	default:
		return f.size, nil
	}
}

// Read implements io.Reader. It waits for the bytes that have not come yet.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, from, err := r.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		if n, err = r.readFrom(from, p); n > 0 || err != nil {
			return n, err
		}
	}
}

// origin is where bytes are read from.
type origin int

const (
	fromUpload origin = iota
	fromStore
)

// next waits until there are bytes, and takes those that are not stored; else it says where
// they are.
func (r *reader) next(p []byte) (n int, from origin, err error) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.state == failed:
			return 0, 0, f.err
		case f.size >= 0 && r.at >= f.size:
			return 0, 0, io.EOF
		case f.inTail(r): // also for who is cut: it needs no store
			n = copy(p, f.tail[r.at-f.tailAt:])
			r.at += int64(n)
			return n, 0, nil
		case r.ctx.Err() != nil:
			return 0, 0, context.Cause(r.ctx)
		case f.state == stored && r.src == nil:
			return 0, fromStore, nil
		case r.at >= f.shown, f.state == placing && r.src == nil:
			f.cond.Wait()
		case f.live && r.at >= f.from:
			if r.at < f.at || f.window == nil {
				return 0, 0, errPassed
			}
			n = copy(p, f.window[r.at-f.at:])
			r.at += int64(n)
			f.cond.Broadcast()
			return n, 0, nil
		default:
			return 0, fromUpload, nil
		}
	}
}

// inTail says whether the tail has all that a reader without a file still wants. It needs f.mu.
func (f *flight) inTail(r *reader) bool { return f.tail != nil && r.at >= f.tailAt && !r.file }

var errPassed = errors.New("the bytes have passed and are not stored")

// readFrom reads what is stored. 0 bytes and no error ask to look again.
func (r *reader) readFrom(from origin, p []byte) (int, error) {
	fresh := r.src == nil
	if fresh {
		if err := r.open(from); err != nil {
			return 0, r.orAgain(err)
		}
	}
	f := r.f
	f.mu.Lock()
	left := f.shown - r.at
	if f.live {
		left = min(left, f.from-r.at)
	}
	f.mu.Unlock()
	n, err := r.src.Read(p[:min(int64(len(p)), left)])
	f.mu.Lock()
	r.at += int64(n)
	f.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	r.leave()
	if err == io.EOF && fresh { //nolint:errorlint // readers end with EOF itself
		err = io.ErrUnexpectedEOF
	}
	if err == io.EOF { //nolint:errorlint // what was open knows less than has come
		return 0, nil
	}
	return 0, r.orAgain(err)
}

// orAgain is nil where the upload was closed because it has become a blob, and where the bytes can be had without it.
func (r *reader) orAgain(err error) error {
	state, left := r.settled()
	r.f.mu.Lock()
	tailed := r.f.inTail(r)
	r.f.mu.Unlock()
	if tailed {
		left.close()
		return nil
	}
	if state == stored && !r.again {
		r.again = true
		return nil
	}
	if left == nil {
		return err
	}
	// It may have to be read from a bucket, for which nobody else waits.
	if _, skipped := io.CopyN(io.Discard, left.src, r.at-left.at); skipped != nil || r.at < left.at {
		left.close()
		return err
	}
	r.src = left.src
	return nil
}

// settled waits until the upload is a blob or is not going to be one; then it takes what the
// reader has of it.
func (r *reader) settled() (state, *remnant) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.state == placing && r.ctx.Err() == nil {
		f.cond.Wait()
	}
	if f.state != kept {
		return f.state, nil
	}
	left := r.left
	r.left = nil
	return f.state, left
}

// remnant is what an upload holds, from an offset on. It can be read when the upload could
// not become a blob and is gone, as happens with a bucket that is full.
type remnant struct {
	src io.ReadCloser
	at  int64
}

func (m *remnant) close() {
	if m != nil {
		_ = m.src.Close() // nothing was written
	}
}

// retain opens the upload for those who have no file of it.
func (f *flight) retain() {
	f.mu.Lock()
	var without []*reader
	for r := range f.readers {
		if !r.file && r.at < f.size {
			without = append(without, r)
		}
	}
	f.mu.Unlock()
	for _, r := range without {
		f.mu.Lock()
		at := r.at
		f.mu.Unlock()
		src, err := f.upload.Reader(r.ctx, at)
		if err != nil {
			continue // its client has left, or the commit fails as well
		}
		f.set(func() {
			if f.readers[r] {
				r.left = &remnant{src, at}
				src = nil
			}
		})
		if src != nil { // it has left meanwhile
			_ = src.Close() // nothing was written
		}
	}
}

func (r *reader) open(from origin) (err error) {
	if from == fromUpload {
		src, err := r.f.upload.Reader(r.ctx, r.at)
		if err != nil {
			return err
		}
		if _, ok := storage.File(src); ok {
			r.src = src
			r.f.set(func() { r.file = true })
			return nil
		}
		_ = src.Close() // nothing was read
		r.src = &turns{r: r, at: r.at}
		return nil
	}
	b, err := r.f.repo.OpenBlob(r.ctx, r.f.key.digest)
	if err != nil {
		return err
	}
	if _, err := b.Seek(r.at, io.SeekStart); err != nil {
		_ = b.Close() // nothing was written
		return err
	}
	r.src = b
	return nil
}

// turns reads an upload that has no file behind it, in turns with whoever writes to it.
type turns struct {
	r    *reader
	at   int64 // behind rest
	rest []byte
	buf  []byte
}

// turn is how much is read at once: object stores may have to be asked for it.
const turn = 128 << 10

// Read implements io.Reader.
func (t *turns) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		if t.buf == nil {
			t.buf = make([]byte, turn)
		}
		n, err := t.r.f.upload.ReadAt(t.r.ctx, t.buf, t.at)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		t.rest, t.at = t.buf[:n], t.at+int64(n)
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (t *turns) Close() error { return nil }

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 {
		return 0, errors.New("a reader of a blob seeks from its start")
	}
	r.leave()
	r.f.set(func() { r.at = offset })
	return offset, nil
}

// leave closes what is open.
func (r *reader) leave() {
	if r.src != nil {
		_ = r.src.Close() // nothing was written
		r.src = nil
		r.f.set(func() { r.file = false })
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.stop()
	r.cut(nil)
	r.leave()
	r.f.set(func() {
		delete(r.f.readers, r)
		r.left.close()
		r.left = nil
	})
	return nil
}
