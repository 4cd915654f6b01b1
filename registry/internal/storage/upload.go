package storage

import (
	"context"
	"io"
)

// Upload is a request's hold on an object that is being received. It is written in
// order; one goroutine at a time uses it. It ends by Suspend, by Cancel or by an
// Apply that puts it in place.
type Upload interface {
	// Write appends. After an error the upload may hold a part of p; Progress says
	// how much. ErrUploadTaken, ErrUploadDone.
	io.Writer

	// Progress is the number of bytes that the upload holds, over all requests, and the
	// state that was last given to Suspend, nil unless it belongs to exactly these
	// bytes and they are certain.
	Progress() (size int64, state []byte)

	// Reader reads what the upload holds from offset on, also after an Apply of the upload
	// that has failed. The caller closes it.
	Reader(ctx context.Context, offset int64) (io.ReadCloser, error)

	// Suspend leaves the upload to whoever resumes it, with a state of at most 4 KiB
	// (a running hash) for him. What was written is kept as safely as the store keeps
	// an unfinished upload: over the death of this process, not over a power loss.
	Suspend(ctx context.Context, state []byte) error

	// Cancel removes what was written. If the upload was taken over, it removes
	// nothing and returns ErrUploadTaken.
	Cancel(ctx context.Context) error
}

// UploadHint is what is known of an upload when it begins. The zero value is
// always right.
type UploadHint struct {
	// Final is the key at which Apply will put the upload, where the digest is known
	// before the body; "" else. A store that cannot rename writes to it directly.
	Final string
	// Size is the number of bytes to come, where it is known, else -1 or 0.
	Size int64
}
