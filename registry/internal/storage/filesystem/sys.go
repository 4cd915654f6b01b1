package filesystem

import (
	"crypto/rand"
	"encoding/hex"
	"errors"

	"golang.org/x/sys/unix"
)

// The system calls themselves. Unlike package os they make no *PathError, which
// would carry the root to a client, register nothing with the poller, and cost
// half. Each repeats what a signal interrupted (NFS and FUSE let that happen).

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func open(path string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o666)
		return err
	})
	return fd, err
}

func stat(path string, st *unix.Stat_t) error {
	return retry(func() error { return unix.Stat(path, st) })
}

func mkdir(path string) error {
	return retry(func() error { return unix.Mkdir(path, 0o777) })
}

func rename(from, to string) error {
	return retry(func() error { return unix.Rename(from, to) })
}

func rmdir(path string) error {
	return retry(func() error { return unix.Rmdir(path) })
}

// closeFD closes. An error says nothing here: what matters was flushed before.
func closeFD(fd int) { unix.Close(fd) } //nolint:errcheck // see above

// repeat calls call for what is left of p, until that is nothing, or call does nothing.
func repeat(p []byte, call func(rest []byte, done int64) (int, error)) (n int, err error) {
	for n < len(p) {
		var m int
		err = retry(func() error {
			m, err = call(p[n:], int64(n))
			return err
		})
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

// read fills p, up to the end of the file.
func read(fd int, p []byte) (int, error) {
	return repeat(p, func(rest []byte, _ int64) (int, error) { return unix.Read(fd, rest) })
}

// pread fills p from offset on, up to the end of the file.
func pread(fd int, p []byte, offset int64) (int, error) {
	return repeat(p, func(rest []byte, done int64) (int, error) { return unix.Pread(fd, rest, offset+done) })
}

// writeAll writes p, all of it unless there is an error.
func writeAll(fd int, p []byte) (n int, err error) {
	n, err = repeat(p, func(rest []byte, _ int64) (int, error) { return unix.Write(fd, rest) })
	return n, whole(n, len(p), err)
}

// pwrite writes p at offset, all of it unless there is an error.
func pwrite(fd int, p []byte, offset int64) error {
	n, err := repeat(p, func(rest []byte, done int64) (int, error) { return unix.Pwrite(fd, rest, offset+done) })
	return whole(n, len(p), err)
}

// whole fails if a write has ended early.
func whole(n, of int, err error) error {
	if err == nil && n < of {
		return unix.EIO
	}
	return err
}

func openDir(path string) (fd int, err error) { return open(path, unix.O_RDONLY|unix.O_DIRECTORY) }

// unsupported says whether the file system does not know the call.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ESPIPE)
}

// touch sets the modification time of a file or directory to now.
func touch(path string) error {
	return retry(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, 0) })
}

// newInstance is a name that no other process uses. In containers all have the
// process id 1.
func newInstance() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails, by its documentation
	return hex.EncodeToString(b[:])
}
