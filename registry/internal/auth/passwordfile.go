package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/shared/durabledir"
)

// lockWait is the longest time that a change of a password file waits for another one.
const lockWait = 10 * time.Second

const lockSuffix = ".lock"

// ErrFileBusy means that another change of the password file takes too long.
var ErrFileBusy = errors.New("another change of the password file takes too long")

// LockPasswords waits until no other process changes the password file at path, which need not exist. The
// lock is on a file beside it, because the password file itself is replaced. The error is ErrFileBusy, the
// context's, or of the directory.
func LockPasswords(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(besides(path, lockSuffix), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := copyOwnership(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		busy := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case busy && ctx.Err() == nil && time.Now().Before(end):
			continue
		case busy:
			err = cmp.Or(ctx.Err(), ErrFileBusy)
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
}

// besides names a hidden file in the directory of path.
func besides(path, suffix string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// ReplacePasswords replaces the password file atomically and durably, and keeps its mode and owner; a new file is
// readable by its owner only. The caller holds the lock.
func ReplacePasswords(path string, content []byte) error {
	return durabledir.Replace(path, content, func(f *os.File) error { return copyOwnership(f, path) })
}

// copyOwnership gives the file the mode and owner of the file at path: root
// may edit the file of a service that runs as another user.
func copyOwnership(f *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, ok := old.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Getuid() || int(s.Gid) != os.Getgid()) {
		if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return fmt.Errorf("keep the owner of %s: %w", path, err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}

// whyReadOnly returns why this process can't replace the password file, "" if it can.
func whyReadOnly(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "it cannot be read"
	}
	dir, lock := filepath.Dir(path), besides(path, lockSuffix)
	owner, _ := info.Sys().(*syscall.Stat_t)
	groups, _ := os.Getgroups()
	foreign := owner != nil && (int(owner.Uid) != os.Geteuid() || int(owner.Gid) != os.Getegid() && !slices.Contains(groups, int(owner.Gid)))
	writable, locked := unix.Access(dir, unix.W_OK|unix.X_OK), unix.Access(lock, unix.W_OK)
	switch {
	case !info.Mode().IsRegular():
		return "it is a symbolic link, as in a mounted secret, or another special file"
	case isMount(path):
		return "it is mounted by itself: mount its directory instead"
	case errors.Is(writable, unix.EROFS):
		return "its file system is read-only"
	case writable != nil:
		return "the registry may not write to its directory " + dir
	case locked != nil && !errors.Is(locked, unix.ENOENT):
		return "the registry may not write to " + lock
	case foreign && os.Geteuid() != 0:
		return "it belongs to another user or group"
	}
	return ""
}
