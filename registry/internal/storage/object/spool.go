package object

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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

// openSpool opens a file for the bytes of an upload. One without a name is gone with its
// process.
func (s *Store) openSpool(name string) (*os.File, error) {
	open := func() (*os.File, error) {
		if name != "" {
			return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		}
		f, err := os.CreateTemp(s.o.Spool, "upload-")
		if err == nil {
			err = os.Remove(f.Name())
		}
		return f, err
	}
	f, err := open()
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(s.o.Spool, 0o700); err != nil {
			return nil, spoolError(err)
		}
		f, err = open()
	}
	return f, spoolError(err)
}

// spoolAge is how long the spool keeps uploads that nobody has continued.
const spoolAge = 7 * 24 * time.Hour

// cleanSpool removes what uploads have left that were never ended.
func (s *Store) cleanSpool(now time.Time) error {
	files, err := os.ReadDir(s.o.Spool)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return spoolError(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.ModTime().After(now.Add(-spoolAge)) || !strings.ContainsRune(f.Name(), '.') {
			continue
		}
		if err := os.Remove(filepath.Join(s.o.Spool, f.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return spoolError(err)
		}
	}
	return nil
}
