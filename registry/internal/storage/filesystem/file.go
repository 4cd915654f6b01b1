package filesystem

import (
	"io"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// file is a regular file that is open for reading. Unlike an os.File it asks the
// kernel nothing when it is made, and needs no finalizer. One goroutine uses it.
type file struct {
	fd  int // -1 when it is closed
	key string
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (n int, err error) {
	if f.fd < 0 {
		return 0, fs.ErrClosed
	}
	err = retry(func() error { n, err = unix.Read(f.fd, p); return err })
	switch {
	case err != nil:
		return 0, &fault{"read", f.key, kindOf(err), err}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Seek implements io.Seeker.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	if f.fd < 0 {
		return 0, fs.ErrClosed
	}
	at, err := unix.Seek(f.fd, offset, whence)
	if err != nil {
		return 0, &fault{"seek in", f.key, kindOf(err), err}
	}
	return at, nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	if f.fd < 0 {
		return fs.ErrClosed
	}
	closeFD(f.fd)
	f.fd = -1
	return nil
}

// SyscallConn implements syscall.Conn: the kernel sends the file to a connection.
func (f *file) SyscallConn() (syscall.RawConn, error) {
	if f.fd < 0 {
		return nil, fs.ErrClosed
	}
	return rawFile(f.fd), nil
}

// rawFile is the descriptor of a file, which is always ready.
type rawFile uintptr

// Control implements syscall.RawConn.
func (r rawFile) Control(f func(fd uintptr)) error {
	f(uintptr(r))
	return nil
}

// Read implements syscall.RawConn.
func (r rawFile) Read(f func(fd uintptr) (done bool)) error {
	for !f(uintptr(r)) {
	}
	return nil
}

// Write implements syscall.RawConn.
func (rawFile) Write(func(fd uintptr) (done bool)) error { return unix.EBADF }
