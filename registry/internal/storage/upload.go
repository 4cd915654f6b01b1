package storage

import (
	"context"
	"io"
)

// Upload is a request's exclusive hold on an object that is being received. It is written in
// order; one goroutine at a time uses it. It ends by Suspend, by Cancel or by an
// Apply that puts it in place; after that Suspend and Cancel do nothing.
type Upload interface {
	// Write appends. After an error the upload may hold a part of p; Progress says
	// how much. ErrUploadTaken, ErrUploadDone.
	io.Writer

	// Progress returns the number of bytes that the upload holds, over all requests, and the
	// state that was last given to Suspend, nil unless it belongs to exactly these
	// bytes and they are certain.
	Progress() (size int64, state []byte)

	// Reader reads what the upload holds from offset on. The caller closes it.
	Reader(ctx context.Context, offset int64) (io.ReadCloser, error)

	// Suspend leaves the upload to the next holder, with its first size bytes: all that it
	// holds, or as many as when it was opened, so that a failed request leaves nothing.
	// The bytes outlive this process, not a power loss.
	// state, at most 4 KiB (a running hash), belongs to them and may be lost with the process.
	Suspend(ctx context.Context, size int64, state []byte) error

	// Cancel removes what was written. If the upload was taken over, it removes
	// nothing and returns ErrUploadTaken.
	Cancel(ctx context.Context) error
}

// UploadOptions tells OpenUpload what to do. The zero value resumes.
type UploadOptions struct {
	// Create makes a new upload. Other processes need not see it before it is suspended.
	Create bool
	// Final is the key at which Apply will put the upload, where the digest is known
	// before the body; otherwise "". A store that can't rename may write there directly.
	Final string
	// Size is the number of bytes to come if known, otherwise -1 or 0.
	Size int64
}
