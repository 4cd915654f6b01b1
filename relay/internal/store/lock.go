package store

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"slipway/shared/fserror"
)

// ErrLocked says that another process has the database open.
var ErrLocked = errors.New("another relay uses this database: end that one, or give this one a database of its own")

// lock takes the lock that keeps a second process out. It is on a file of its own: closing any descriptor of the
// database file would drop SQLite's POSIX locks on it.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", fserror.Explain(err, path))
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
