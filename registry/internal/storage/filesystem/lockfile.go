package filesystem

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// flock locks an open file, LOCK_SH or LOCK_EX, for as long as it is open; or
// unlocks it. EWOULDBLOCK if it cannot be locked now. A file system without locks
// does without: there only one process may write.
func flock(fd, how int) error {
	err := retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if unsupported(err) || errors.Is(err, unix.ENOLCK) {
		return nil
	}
	return err
}

// unlinked says whether an open file has no name any more.
func unlinked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Nlink == 0
}

// lockMode is how a file is opened in order to lock it. One that is open for
// writing keeps its file system from being remounted read-only, and reading
// is enough for a lock, except for LOCK_EX on NFS.
func (s *Store) lockMode(how int) int {
	if how == unix.LOCK_EX && !s.local() {
		return unix.O_RDWR
	}
	return unix.O_RDONLY
}

// errNoFile says that a file of the directory of locks is not there and this
// process may not make it.
var errNoFile = errors.New("it is not there")

// openLock opens a file of the directory of locks, which it creates if need be.
func (s *Store) openLock(name string, mode int) (fd int, err error) {
	file := s.locks + "/" + name
	fd, err = s.create(file, mode)
	if err == unix.ENOENT && !s.vanished() { //nolint:errorlint // a bare errno
		if err = s.mkdir(s.locks); err == nil || err == unix.EEXIST { //nolint:errorlint // a bare errno
			fd, err = s.create(file, mode)
		}
	}
	var st unix.Stat_t
	if isDenied(err) && stat(file, &st) == unix.ENOENT { //nolint:errorlint // a bare errno
		err = fmt.Errorf("%w: %w", errNoFile, err)
	}
	return fd, err
}

// lock opens a file of the directory of locks and locks it.
func (s *Store) lock(name string, how int) (fd int, err error) {
	if fd, err = s.openLock(name, s.lockMode(how)); err != nil {
		return -1, err
	}
	if err := flock(fd, how); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// lockRoot locks the root directory, which needs no room for a file. Where
// directories have no locks, and where other machines would not see them, fd
// is -1.
func (s *Store) lockRoot(how int) (fd int, err error) {
	if !s.local() {
		return -1, nil
	}
	if fd, err = openDir(s.rootDir()); err != nil {
		return -1, err
	}
	if err := flock(fd, how); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// lockFile is a file of the directory of locks that stays open. It is zero to
// begin with.
type lockFile struct {
	name string
	fd   int // and 1, so that 0 is a file that is not open
}

// open returns the descriptor. The caller holds what guards f.
func (f *lockFile) open(s *Store, mode int) (int, error) {
	if f.fd == 0 {
		fd, err := s.openLock(f.name, mode)
		if err != nil {
			return -1, err
		}
		f.fd = fd + 1
	}
	return f.fd - 1, nil
}

func (f *lockFile) close() {
	if f.fd != 0 {
		closeFD(f.fd - 1)
		f.fd = 0
	}
}
