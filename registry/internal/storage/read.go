package storage

import (
	"context"
	"fmt"
	"io"
	"syscall"
)

// Read returns the content of the small object at key. The error is ErrTooLarge if it has more than
// limit bytes.
func Read(ctx context.Context, s Store, key string, limit int64) ([]byte, Info, error) {
	o, err := s.Open(ctx, key, 0, limit+1)
	if err != nil {
		return nil, Info{}, err
	}
	defer o.Close()
	if o.Size > limit {
		return nil, o.Info, fmt.Errorf("%s has %d bytes: %w", key, o.Size, ErrTooLarge)
	}
	content := make([]byte, 0, o.Size+1) // one more, so that the end shows without growing
	for {
		n, err := o.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		if err == io.EOF { //nolint:errorlint // readers end with EOF itself
			return content, o.Info, nil
		}
		if err != nil {
			return nil, o.Info, err
		}
		if int64(len(content)) > limit {
			return nil, o.Info, fmt.Errorf("%s grows: %w", key, ErrTooLarge)
		}
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
	}
}

// Sendable is a file that the kernel can send: from where the next Read begins, and
// it moves on with what is sent.
type Sendable interface {
	io.ReadSeeker
	syscall.Conn
}

// File returns the file behind an open object, if there is one.
func File(r io.Reader) (Sendable, bool) {
	switch r := r.(type) {
	case Sendable:
		return r, true
	case *Object:
		return File(r.ReadCloser)
	case interface{ Unwrap() Sendable }:
		return r.Unwrap(), true
	}
	return nil, false
}
