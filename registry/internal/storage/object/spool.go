package object

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"slipway/registry/internal/storage"
)

// spoolError says that it was the local disk that failed.
func spoolError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: the local spool of uploads is full: %w", storage.ErrNoSpace, err)
	default:
		return fmt.Errorf("%w: the local spool of uploads: %w", storage.ErrUnavailable, err)
	}
}

// openSpool opens a file for the bytes of an upload. It has no name, and so is gone with its process.
func (s *Store) openSpool() (*os.File, error) {
	f, err := os.CreateTemp(s.o.Spool, "upload-")
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(s.o.Spool, 0o700); err != nil {
			return nil, spoolError(err)
		}
		f, err = os.CreateTemp(s.o.Spool, "upload-")
	}
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, spoolError(err)
}
