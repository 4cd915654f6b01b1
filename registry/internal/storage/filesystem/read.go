package filesystem

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// Stat implements storage.Store.
func (s *Store) Stat(_ context.Context, key string) (storage.Info, error) {
	if prefix, ok := strings.CutSuffix(key, "/"); ok {
		return s.statPrefix(prefix)
	}
	name, err := s.abs("stat", key)
	if err != nil {
		return storage.Info{}, err
	}
	var st unix.Stat_t
	if err := s.statFile(name, &st); err != nil {
		return storage.Info{}, s.readFault("stat", key, err)
	}
	return s.info(key, &st), nil
}

// statPrefix describes a directory. A network file system's may have changed without this
// machine's knowledge, so there it has no version.
func (s *Store) statPrefix(prefix string) (storage.Info, error) {
	name, err := s.abs("stat", prefix)
	if err != nil {
		return storage.Info{}, err
	}
	var st unix.Stat_t
	if err = stat(name, &st); err == nil && !isDir(&st) {
		err = unix.ENOENT
	}
	if err != nil {
		return storage.Info{}, s.readFault("stat", prefix, err)
	}
	info := storage.Info{Key: prefix + "/", Prefix: true}
	if s.local() {
		info.Version = s.version(&st)
	}
	return info, nil
}

// statFile describes the regular file at name; ENOENT for anything else.
func (s *Store) statFile(name string, st *unix.Stat_t) error {
	err := stat(name, st)
	if err == nil && !isFile(st) {
		err = unix.ENOENT
	}
	return err
}

func (s *Store) info(key string, st *unix.Stat_t) storage.Info {
	return storage.Info{Key: key, Size: st.Size, Modified: time.Unix(st.Mtim.Unix()), Version: s.version(st)}
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

func isFile(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// smallFile is the size up to which a file is read at once if the caller gives a length:
// links and notes.
const smallFile = 4096

// Open implements storage.Store. A larger object is an *os.File, or a part of one.
func (s *Store) Open(_ context.Context, key string, offset, length int64) (*storage.Object, error) {
	name, err := s.abs("open", key)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK) // a FIFO must not block the reader
	if err != nil {
		return nil, s.readFault("open", key, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && !isFile(&st) {
		err = unix.ENOENT
	}
	if err == nil && offset != 0 {
		_, err = unix.Seek(fd, offset, io.SeekStart)
	}
	if err != nil {
		closeFD(fd)
		return nil, s.readFault("open", key, err)
	}
	o := &storage.Object{Info: s.info(key, &st)}
	if offset == 0 && length >= st.Size && st.Size <= smallFile {
		defer closeFD(fd)
		content := make([]byte, st.Size)
		n, err := read(fd, content)
		if err != nil {
			return nil, s.readFault("read", key, err)
		}
		o.ReadCloser = io.NopCloser(bytes.NewReader(content[:n]))
		return o, nil
	}
	f := file{os.NewFile(uintptr(fd), key)}
	if o.ReadCloser = f; length >= 0 && offset+length < st.Size {
		o.ReadCloser = &part{io.LimitedReader{R: f, N: length}, f}
	}
	return o, nil
}

// file classifies the errors of an open file.
type file struct{ *os.File }

// Read implements io.Reader.
func (f file) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err == nil || err == io.EOF { //nolint:errorlint // readers end with EOF itself
		return n, err
	}
	return n, &fault{"read", f.Name(), kindOf(err), err}
}

// part is a part of a file.
type part struct {
	io.LimitedReader
	f file
}

// Unwrap is for storage.File.
func (p *part) Unwrap() storage.Sendable { return p.f }

func (p *part) Close() error { return p.f.Close() }

// A version is made of the kernel's description of a file: inode, size and modification
// time. The clock behind the time stands still for up to a tick: 10 ms on the slowest
// kernels, seconds on file systems that store no fractions. Until a tick has passed another
// change could have the same time, so there is no version yet. The time lies in the future after
// the clock was set back, which then reads other times; on a network file system it may be another clock's.
const (
	fineTick   = 20 * time.Millisecond
	coarseTick = 2100 * time.Millisecond
)

// version returns the token of a file or directory, "" while there is none.
func (s *Store) version(st *unix.Stat_t) string {
	tick := fineTick
	if st.Ctim.Nsec == 0 {
		tick = coarseTick
	}
	age := time.Since(time.Unix(st.Ctim.Unix()))
	if s.local() {
		age = age.Abs()
	}
	if age < tick {
		return ""
	}
	return token(st)
}

// token tells one state of a file or directory from another. Anybody can set the
// modification time of a directory back, so there the change time counts, too.
func token(st *unix.Stat_t) string {
	var t [40]byte
	binary.NativeEndian.PutUint64(t[0:], device(st))
	binary.NativeEndian.PutUint64(t[8:], st.Ino)
	binary.NativeEndian.PutUint64(t[16:], uint64(st.Size))
	binary.NativeEndian.PutUint64(t[24:], uint64(st.Mtim.Nano()))
	if isDir(st) {
		binary.NativeEndian.PutUint64(t[32:], uint64(st.Ctim.Nano()))
	}
	return string(t[:])
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		name, err := s.abs("list", prefix)
		if err != nil {
			yield(storage.Info{}, err)
			return
		}
		l := &listing{s: s, ctx: ctx, o: o, yield: yield, version: o.Version}
		err = l.dir(prefix, name)
		if err == nil || err == errStopped || isNotExist(err) && !s.vanished() { //nolint:errorlint // itself
			return
		}
		yield(storage.Info{}, s.readFault("list", prefix, err))
	}
}

// tempSuffix ends the names of files that distribution is writing.
const tempSuffix = ".tmp"

// errStopped ends a listing that the caller has left.
const errStopped = unix.ECANCELED

// listing is one call of List.
type listing struct {
	s     *Store
	ctx   context.Context //nolint:containedctx // of the call
	o     storage.ListOptions
	yield func(storage.Info, error) bool

	version *string // of the directory that is read next; nil = not needed
}

// dir yields the entries of the directory at name in the order of their keys, where those of
// directories end in a slash.
func (l *listing) dir(prefix, name string) error {
	fd, err := openDir(name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if l.version != nil && l.s.local() && unix.Fstat(fd, &st) == nil {
		*l.version = l.s.version(&st)
	}
	l.version = nil
	f := os.NewFile(uintptr(fd), prefix)
	all, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, e := range all {
		kind := e.Type()
		if kind&fs.ModeSymlink != 0 {
			kind = fs.ModeIrregular
			if info, err := os.Stat(name + "/" + e.Name()); err == nil {
				kind = info.Mode().Type()
			}
		}
		switch {
		case !storage.ValidKey("/" + e.Name()):
		case kind.IsDir():
			names = append(names, e.Name()+"/")
		case kind.IsRegular() && !strings.HasSuffix(e.Name(), tempSuffix):
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for _, e := range names {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(prefix+"/"+e, name); err != nil {
			return err
		}
	}
	return nil
}

// entry yields an entry of the directory at name, or what is below it.
func (l *listing) entry(key, name string) error {
	dir, isPrefix := strings.CutSuffix(key, "/")
	path := func() string { return name + dir[strings.LastIndexByte(dir, '/'):] }
	if isPrefix && l.o.Flat {
		if key < l.o.After && !strings.HasPrefix(l.o.After, key) {
			return nil
		}
		return ignoreNotExist(l.dir(dir, path()))
	}
	if key <= l.o.After {
		return nil
	}
	info := storage.Info{Key: key, Prefix: isPrefix}
	if !isPrefix && !l.o.Names {
		var st unix.Stat_t
		if err := l.s.statFile(path(), &st); err != nil {
			return ignoreNotExist(err)
		}
		info = l.s.info(key, &st)
	}
	if !l.yield(info, nil) {
		return errStopped
	}
	return nil
}
