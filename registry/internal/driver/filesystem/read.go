package filesystem

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// Stat implements driver.Driver.
func (d *Driver) Stat(_ context.Context, path string) (driver.Info, error) {
	name, err := d.abs("stat", path)
	if err != nil {
		return driver.Info{}, err
	}
	var st unix.Stat_t
	if err := stat(name, &st); err != nil {
		return driver.Info{}, d.readFault("stat", path, err)
	}
	return info(&st), nil
}

// Find implements driver.Driver.
func (d *Driver) Find(_ context.Context, first, second string) (driver.Info, string, error) {
	for _, path := range [...]string{first, second} {
		if !driver.ValidPath(path) {
			return driver.Info{}, "", &fault{op: "stat", path: path, kind: driver.ErrInvalidPath}
		}
	}
	name, other := d.root+first, d.root+second
	var st unix.Stat_t
	for i, at := range [...]string{name, other, name} {
		switch err := stat(at, &st); {
		case err == nil && i == 1:
			return info(&st), second, nil
		case err == nil:
			return info(&st), first, nil
		case !isNotExist(err):
			return driver.Info{}, "", d.readFault("stat", at[len(d.root):], err)
		}
	}
	return driver.Info{}, "", d.readFault("stat", first, unix.ENOENT)
}

func info(st *unix.Stat_t) driver.Info {
	i := driver.Info{Dir: isDir(st), Changed: time.Unix(st.Mtim.Unix()), Moved: time.Unix(st.Ctim.Unix())}
	if !i.Dir {
		i.Size = st.Size
	}
	return i
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// smallFile is the limit below which a read is tried without asking for the
// size first: links and notes.
const smallFile = 1024

// ReadFile implements driver.Driver.
func (d *Driver) ReadFile(_ context.Context, path string, limit int64) ([]byte, error) {
	name, err := d.abs("read", path)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, d.readFault("read", path, err)
	}
	defer closeFD(fd)
	size := limit
	if limit > smallFile {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, d.readFault("read", path, err)
		}
		size = min(limit, st.Size)
	}
	b := make([]byte, size+1)
	n, err := read(fd, b)
	switch {
	case err != nil:
		return nil, d.readFault("read", path, err)
	case int64(n) > limit:
		return nil, &fault{"read", path, driver.ErrTooLarge, nil}
	}
	return b[:n], nil
}

// Open implements driver.Driver.
func (d *Driver) Open(_ context.Context, path string) (driver.File, error) {
	name, err := d.abs("open", path)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, d.readFault("open", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return nil, d.readFault("open", path, err)
	}
	if isDir(&st) {
		closeFD(fd)
		return nil, d.readFault("open", path, unix.EISDIR)
	}
	return &File{os.NewFile(uintptr(fd), path), st.Size}, nil
}

// File is a driver.File.
type File struct {
	f    *os.File // its name is the path below the root
	size int64
}

// Size implements driver.File: the size when the file was opened.
func (f *File) Size() int64 { return f.size }

// Unwrap is the file itself, for what the kernel does with files: sendfile.
func (f *File) Unwrap() *os.File { return f.f }

// Read implements driver.File.
func (f *File) Read(p []byte) (int, error) { return f.f.Read(p) }

// ReadAt implements driver.File.
func (f *File) ReadAt(p []byte, offset int64) (int, error) { return f.f.ReadAt(p, offset) }

// Seek implements driver.File.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.f.Seek(offset, whence) }

// Close implements driver.File.
func (f *File) Close() error { return f.f.Close() }
