package filesystem

import (
	"bytes"
	"context"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// Stat implements storage.Store.
func (s *Store) Stat(_ context.Context, key string) (storage.Info, error) {
	name, err := s.abs("stat", key)
	if err != nil {
		return storage.Info{}, err
	}
	var st unix.Stat_t
	if err := s.look(name, &st); err != nil {
		return storage.Info{}, s.readFault("stat", key, err)
	}
	return s.info(key, name, &st), nil
}

// look describes the file at name; ENOENT for anything else. What this machine
// remembers of a file that another one keeps may be a minute old; opening it asks
// that one (nfs(5), close-to-open).
func (s *Store) look(name string, st *unix.Stat_t) error {
	err := stat(name, st)
	if err == nil && !isFile(st) {
		err = unix.ENOENT
	}
	if err != nil || s.clock(name, device(st)).local {
		return err
	}
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return unix.Fstat(fd, st)
}

// info describes the file at name. One that several keys share was completed, for
// each of them, when its directory got the entry: see share.
func (s *Store) info(key, name string, st *unix.Stat_t) storage.Info {
	i := storage.Info{Key: key, Size: st.Size, Modified: time.Unix(st.Mtim.Unix()), Version: s.version(name, st)}
	var dir unix.Stat_t
	if st.Nlink > 1 && stat(dirOf(name), &dir) == nil {
		i.Modified = time.Unix(dir.Mtim.Unix())
	}
	return i
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

func isFile(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// smallFile is the size up to which a file is read at once, if all of it is asked
// for by length: links and notes.
const smallFile = 4096

// Open implements storage.Store.
func (s *Store) Open(_ context.Context, key string, offset, length int64) (*storage.Object, error) {
	name, err := s.abs("open", key)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK) // a FIFO keeps nobody waiting
	if err != nil {
		return nil, s.readFault("open", key, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && !isFile(&st) {
		err = unix.ENOENT
	}
	if err != nil {
		closeFD(fd)
		return nil, s.readFault("open", key, err)
	}
	o := &storage.Object{Info: s.info(key, name, &st)}
	if offset == 0 && length >= st.Size && st.Size <= smallFile {
		o.ReadCloser, err = readSmall(fd, st.Size)
	} else {
		o.ReadCloser, err = openRange(fd, key, &st, offset, length)
	}
	if err != nil {
		return nil, s.readFault("open", key, err)
	}
	return o, nil
}

// readSmall reads a file of that size and closes it.
func readSmall(fd int, size int64) (io.ReadCloser, error) {
	defer closeFD(fd)
	content := make([]byte, size)
	n, err := read(fd, content)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(content[:n])), nil
}

// openRange takes over fd.
func openRange(fd int, key string, st *unix.Stat_t, offset, length int64) (io.ReadCloser, error) {
	f := &file{fd: fd, key: key}
	if offset != 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			closeFD(fd)
			return nil, err
		}
	}
	if length < 0 || offset+length >= st.Size {
		return f, nil
	}
	return &part{io.LimitedReader{R: f, N: length}, f}, nil
}

// part is a part of a file.
type part struct {
	io.LimitedReader
	f *file
}

// Unwrap is for storage.File.
func (p *part) Unwrap() storage.Sendable { return p.f }

func (p *part) Close() error { return p.f.Close() }
