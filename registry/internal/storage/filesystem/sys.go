package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"
)

// The system calls. Unlike package os they make no *PathError, which would show the root to
// clients. Each repeats a call that a signal interrupted, as happens on NFS and FUSE.

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func open(path string, flags int) (fd int, err error) { return openMode(path, flags, 0) }

// openMode gives the mode to a file that it creates.
func openMode(path string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

func openDir(path string) (fd int, err error) { return open(path, unix.O_RDONLY|unix.O_DIRECTORY) }

// closeFD ignores errors: every byte that matters was flushed before.
func closeFD(fd int) { unix.Close(fd) } //nolint:errcheck // see above

func stat(path string, st *unix.Stat_t) error {
	return retry(func() error { return unix.Stat(path, st) })
}

func rmdir(path string) error {
	return retry(func() error { return unix.Rmdir(path) })
}

// unlink removes a name. It doesn't remove directories.
func unlink(path string) error {
	return retry(func() error { return unix.Unlink(path) })
}

func rename(from, to string) error {
	return retry(func() error { return unix.Rename(from, to) })
}

// touch sets the modification time of a file to now.
func touch(path string) error {
	return retry(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, 0) })
}

// flock locks an open file until it is closed. It doesn't wait: EWOULDBLOCK.
func flock(fd, how int) error {
	return retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

// read fills p, up to the end of the file.
func read(fd int, p []byte) (n int, err error) {
	for n < len(p) {
		m := 0
		err = retry(func() error { m, err = unix.Read(fd, p[n:]); return err })
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

// writeAll writes all of p unless there is an error.
func writeAll(fd int, p []byte) (n int, err error) {
	for n < len(p) {
		m := 0
		err = retry(func() error { m, err = unix.Write(fd, p[n:]); return err })
		if err == nil && m == 0 {
			err = unix.EIO
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// unsupported reports whether the file system doesn't know the call.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ESPIPE)
}
