package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"slipway/registry/internal/storage"
)

const (
	bufferSize   = 256 << 10 // what one upload holds in memory
	worthWriting = 64 << 10  // what it writes at once, unless it ends before
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Append stores what src gives until it ends, and returns how much that was.
// What arrived before an error stays. A failure of src comes back with ErrSource.
func (u *Upload) Append(ctx context.Context, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	var total int64
	for {
		n, rerr := fill(buf[:], src)
		if n > 0 {
			written, err := u.write(ctx, buf[:n])
			total += int64(written)
			if absent(err) { // another process has ended it
				return total, unknown()
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

// ErrSource is inside the error of an Append whose src has failed.
var ErrSource = errors.New("receiving the upload")

// interrupted is the error of a src that failed, perhaps because somebody saw
// that the upload was taken over.
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
	u.told.Store(u.size)
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

// resumed makes sure that there is something to write to: the first request of a push
// often brings no bytes, and a failed commit closes the store's upload.
func (u *Upload) resumed(ctx context.Context) (err error) {
	if u.w != nil {
		return nil
	}
	o := u.hint
	o.Create = !u.begun
	u.w, err = u.in.store.OpenUpload(ctx, u.dataKey(), o)
	if errors.Is(err, storage.ErrConflict) {
		err = fmt.Errorf("%w: %w", storage.ErrUploadTaken, err)
	}
	if err != nil {
		u.w = nil
		return err
	}
	u.begun = true
	if size, _ := u.w.Progress(); size != u.size {
		u.size = size
		u.rewind(u.alg)
	}
	return nil
}
