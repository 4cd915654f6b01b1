package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// fault is a failed operation. Its text has the path below the root only.
type fault struct {
	op, path string
	kind     error // one of driver's, or nil
	cause    error // the errno, or nil
}

func (f *fault) Error() string {
	s := f.op + " " + f.path
	if f.kind != nil {
		s += ": " + f.kind.Error()
	}
	if f.cause != nil {
		s += ": " + f.cause.Error()
	}
	return s
}

func (f *fault) Unwrap() []error {
	switch {
	case f.kind == nil:
		return []error{f.cause}
	case f.cause == nil:
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

var errVanished = errors.New("the root directory has vanished; a lost mount?")

// readFault describes a failed read of path.
func (d *Driver) readFault(op, path string, err error) error {
	switch {
	case isNotExist(err) && d.vanished():
		return &fault{op, path, driver.ErrUnavailable, errVanished}
	case isNotExist(err):
		return &fault{op, path, driver.ErrNotExist, nil}
	case errors.Is(err, unix.EISDIR):
		return &fault{op, path, driver.ErrNotExist, err}
	case canOnlyRead(err):
		return &fault{op, path, driver.ErrUnavailable, err}
	}
	return &fault{op, path, kindOf(err), err}
}

// writeFault describes a failed change. What a write needs and does not find is
// not the caller's object, so it is never ErrNotExist.
func (d *Driver) writeFault(op, path string, err error) error {
	if f := (*fault)(nil); errors.As(err, &f) {
		return err
	}
	switch {
	case isNotExist(err) && d.vanished():
		return &fault{op, path, driver.ErrUnavailable, errVanished}
	case canOnlyRead(err):
		return &fault{op, path, driver.ErrReadOnly, err}
	}
	return &fault{op, path, kindOf(err), err}
}

func isNotExist(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

func canOnlyRead(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// isFull says that there is no room, not even for an empty file.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func kindOf(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		return driver.ErrNoSpace
	case unix.ENAMETOOLONG:
		return driver.ErrInvalidPath
	case unix.EIO, unix.ENOTCONN, unix.ESTALE, unix.ELOOP, unix.ENXIO, unix.ENODEV,
		unix.EBADMSG, unix.EHOSTDOWN, unix.ETIMEDOUT, unix.ESHUTDOWN:
		return driver.ErrUnavailable
	}
	if isLost(errno) {
		return driver.ErrUnavailable
	}
	return nil
}

// vanished says whether the root is not the one that was opened. A root that
// lost its mount is an empty directory.
func (d *Driver) vanished() bool {
	var st unix.Stat_t
	if stat(d.staging, &st) == nil {
		return false
	}
	id, err := identify(d.rootDir())
	return err != nil || id != d.identity
}

// rootDir is the root as a path of its own.
func (d *Driver) rootDir() string {
	if d.root == "" {
		return "/"
	}
	return d.root
}
