package filesystem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// While an upload is written, its bytes are sent to the disk window by window, at most ahead
// at a time, so that neither memory nor the flush at the end grows with the upload.
const (
	window = 8 << 20
	ahead  = 4 * window
)

// upload is a storage.Upload: an open file at its own key, where distribution looks for it.
// Its lock (flock) keeps other holders out.
type upload struct {
	s         *Store
	key, name string // below the root; absolute

	mu      sync.Mutex
	fd      int    // -1 once it has ended
	size    int64  // written
	state   []byte // given to Suspend when the upload had that size, or nil
	started int64  // of size, sent to the disk
	arrived int64  // of started, written there
	doubt   error  // a write to the disk failed: no flush reports it again
	sealed  bool   // an Apply has it
}

// OpenUpload implements storage.Store. A second holder is refused.
func (s *Store) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	op, flags := "resume", 0
	if o.Create {
		op, flags = "create", unix.O_CREAT|unix.O_EXCL
	}
	name, err := s.abs(op, key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u := &upload{s: s, key: key, name: name, fd: -1}
	if o.Create {
		s.states.take(key)
		err = s.inDir(name, func() error { return u.open(flags) })
	} else {
		err = u.open(0)
	}
	switch {
	case err == nil:
		return u, nil
	case errors.Is(err, unix.EEXIST):
		return nil, &fault{op, key, storage.ErrConflict, nil}
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, &fault{op, key, storage.ErrUploadTaken, nil}
	case !o.Create && (isNotExist(err) || errors.Is(err, unix.EISDIR)):
		return nil, s.readFault(op, key, err)
	}
	return nil, s.writeFault(op, key, err)
}

// open opens the file, locks it and learns its size.
func (u *upload) open(flags int) error {
	flags |= unix.O_RDWR | unix.O_APPEND | unix.O_NONBLOCK
	var fd int
	var err error
	if flags&unix.O_CREAT != 0 {
		fd, err = u.s.create(u.name, u.name, flags)
	} else {
		fd, err = open(u.name, flags)
	}
	if err != nil {
		return err
	}
	var st, named unix.Stat_t
	if err = flock(fd, unix.LOCK_EX); err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil {
		err = stat(u.name, &named)
	}
	if err == nil && (named.Ino != st.Ino || !isFile(&st)) {
		err = unix.ENOENT // put or deleted before it was locked
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	u.fd, u.size, u.started, u.arrived = fd, st.Size, st.Size, st.Size
	if known := u.s.states.take(u.key); known.file == token(&st) {
		u.state = known.state
	}
	return nil
}

// usable needs u.mu.
func (u *upload) usable() error {
	if u.fd < 0 || u.sealed {
		return storage.ErrUploadDone
	}
	return u.doubt
}

// Write implements storage.Upload.
func (u *upload) Write(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return 0, err
	}
	n, err = writeAll(u.fd, p)
	u.size += int64(n)
	if n > 0 {
		u.state = nil
	}
	if err != nil {
		return n, u.s.writeFault("write", u.key, err)
	}
	return n, u.pace()
}

// pace sends a full window to the disk, and waits for the oldest if there are too many.
func (u *upload) pace() error {
	if u.size-u.started < window {
		return nil
	}
	err := startWriteBack(u.fd, u.started, u.size-u.started, false)
	u.started = u.size
	if err == nil && u.started-u.arrived > ahead {
		err = startWriteBack(u.fd, u.arrived, window, true)
		u.arrived += window
	}
	if err != nil {
		u.doubt = u.s.writeFault("write", u.key, err)
		_ = unlink(u.name)
	}
	return u.doubt
}

// Progress implements storage.Upload.
func (u *upload) Progress() (size int64, state []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.size, u.state
}

// Reader implements storage.Upload.
func (u *upload) Reader(_ context.Context, offset int64) (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return nil, err
	}
	if offset < 0 || offset > u.size {
		return nil, fmt.Errorf("read %s: offset %d is outside of %d bytes", u.key, offset, u.size)
	}
	fd, err := open(u.name, unix.O_RDONLY)
	if err != nil {
		return nil, u.s.readFault("read", u.key, err)
	}
	if _, err := unix.Seek(fd, offset, io.SeekStart); err != nil {
		closeFD(fd)
		return nil, u.s.readFault("read", u.key, err)
	}
	return os.NewFile(uintptr(fd), u.key), nil
}

// Suspend implements storage.Upload. The state stays in this process; after its end the next
// holder reads the bytes again.
func (u *upload) Suspend(_ context.Context, size int64, state []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fd < 0 {
		return nil
	}
	defer u.close()
	if u.doubt != nil {
		return u.doubt
	}
	if size < 0 || size > u.size {
		return fmt.Errorf("suspend %s: cannot keep %d of %d bytes", u.key, size, u.size)
	}
	if size < u.size {
		if err := retry(func() error { return unix.Ftruncate(u.fd, size) }); err != nil {
			return u.s.writeFault("suspend", u.key, err)
		}
	}
	return u.s.states.keep(u.key, u.fd, state)
}

// Cancel implements storage.Upload.
func (u *upload) Cancel(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fd < 0 {
		return nil
	}
	var st unix.Stat_t
	var err error
	if unix.Fstat(u.fd, &st) == nil && st.Nlink > 0 { // otherwise the name may belong to another upload
		err = unlink(u.name)
	}
	u.close()
	u.s.prune(dirOf(u.name), 1)
	if err != nil && !isNotExist(err) {
		return u.s.writeFault("cancel", u.key, err)
	}
	return nil
}

// close needs u.mu.
func (u *upload) close() {
	if u.fd >= 0 {
		closeFD(u.fd)
		u.fd = -1
	}
}

// seal lends the file to an Apply. Only the upload closes it.
func (u *upload) seal() (fd int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(u.fd, &st); err != nil {
		return -1, u.s.writeFault("write", u.key, err)
	}
	switch {
	case st.Nlink == 0:
		return -1, u.s.readFault("write", u.key, unix.ENOENT)
	case st.Size != u.size: // distribution appends without a lock
		return -1, &fault{"write", u.key, storage.ErrUploadTaken, fmt.Errorf("the file has %d bytes instead of %d", st.Size, u.size)}
	}
	u.sealed = true
	return u.fd, nil
}

// unseal returns the file to the holder.
func (u *upload) unseal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sealed = false
}

// end closes an upload that was put in place or deleted.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.close()
}

const (
	maxState  = 4 << 10 // bytes of a state
	maxStates = 1024    // a state that is forgotten costs reading the upload again
)

// states holds what was given to Suspend, by key.
type states struct {
	mu    sync.Mutex
	known map[string]state
}

// state belongs to one file as long as it isn't written.
type state struct {
	file  string // its token
	state []byte
}

// keep remembers the state of the file that is open as fd.
func (s *states) keep(key string, fd int, given []byte) error {
	if len(given) > maxState {
		return fmt.Errorf("suspend %s: a state of %d bytes: %w", key, len(given), storage.ErrTooLarge)
	}
	var st unix.Stat_t
	if given == nil || unix.Fstat(fd, &st) != nil {
		s.take(key)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]state{}
	}
	for other := range s.known {
		if len(s.known) < maxStates {
			break
		}
		delete(s.known, other) // any of them
	}
	s.known[key] = state{token(&st), bytes.Clone(given)}
	return nil
}

// take forgets the state of key and returns it.
func (s *states) take(key string) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key]
	delete(s.known, key)
	return known
}
