package filesystem

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// fault is a failed operation. Its text names the key and not the root.
type fault struct {
	op, key string
	kind    error // one of package storage, or nil
	cause   error // the errno, or nil
}

func (f *fault) Error() string {
	s := f.op + " " + f.key
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

// readFault describes a failed read of key.
func (s *Store) readFault(op, key string, err error) error {
	switch {
	case isNotExist(err) && s.vanished():
		return &fault{op, key, storage.ErrUnavailable, errVanished}
	case isNotExist(err):
		return &fault{op, key, storage.ErrNotExist, nil}
	case errors.Is(err, unix.EISDIR):
		return &fault{op, key, storage.ErrNotExist, err}
	}
	return &fault{op, key, kindOf(err), err}
}

// writeFault describes a failed change; nil if err is nil. A file that a write needs and
// doesn't find isn't the caller's object, so the error is never ErrNotExist.
func (s *Store) writeFault(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if f := (*fault)(nil); errors.As(err, &f) {
		return err
	}
	if isNotExist(err) && s.vanished() {
		return &fault{op, key, storage.ErrUnavailable, errVanished}
	}
	f := &fault{op, key, kindOf(err), err}
	if errors.Is(f.kind, storage.ErrDenied) {
		f.cause = s.explainDenial(err)
	}
	return f
}

// explainDenial names the private directory that belongs to another user, as after a command
// that another user has run.
func (s *Store) explainDenial(err error) error {
	for _, dir := range []string{s.staging, s.locks, s.locks + "/keys"} {
		var st unix.Stat_t
		if stat(dir, &st) == nil && unix.Access(dir, unix.W_OK) != nil {
			return fmt.Errorf("%w; %s in the storage belongs to user %d and group %d: run chown -R %d:%d on it", err, dir[len(s.root)+1:], st.Uid, st.Gid, unix.Geteuid(), unix.Getegid())
		}
	}
	return err
}

func isNotExist(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

func ignoreNotExist(err error) error {
	if isNotExist(err) {
		return nil
	}
	return err
}

// isFull reports whether there is no room, not even for an empty file.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func kindOf(err error) error {
	errno, _ := errors.AsType[unix.Errno](err)
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		return storage.ErrNoSpace
	case unix.EROFS:
		return storage.ErrReadOnly
	case unix.EACCES, unix.EPERM:
		return storage.ErrDenied
	case unix.ENAMETOOLONG:
		return storage.ErrInvalidKey
	case unix.EIO, unix.ENOTCONN, unix.ESTALE, unix.ELOOP, unix.ENXIO, unix.ENODEV,
		unix.EBADMSG, unix.EHOSTDOWN, unix.ETIMEDOUT, unix.ESHUTDOWN:
		return storage.ErrUnavailable
	}
	if isLost(errno) {
		return storage.ErrUnavailable
	}
	return nil
}
