package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// An upload is sent on its way to the disk in windows while it is being written,
// and waits when ahead are not there yet, so that neither memory nor the flush
// at the end grows with the upload.
const (
	window = 8 << 20
	ahead  = 4 * window
)

// upload is a storage.Upload: an open file at its own key, where distribution looks
// for it. While one is open its file is locked (flock), so nobody else writes to
// it: see takeover.go for how it passes to another request.
type upload struct {
	s         *Store
	key, name string // below the root; absolute

	mu      sync.Mutex
	fd      int           // -1 when it is closed
	size    int64         // written
	state   []byte        // given to Suspend when the upload had that size, or nil
	started int64         // of size, sent on its way to the disk
	arrived int64         // of that, written to the disk
	doubt   error         // a write to the disk failed: the bytes are lost, and no flush says so again
	taken   bool          // by another request
	looked  time.Time     // when it was last looked whether another process wants it
	applied chan struct{} // closed when the Apply that has it ends; or nil
}

// CreateUpload implements storage.Store.
func (s *Store) CreateUpload(ctx context.Context, key string, _ storage.UploadHint) (storage.Upload, error) {
	u, err := s.newUpload(ctx, "create", key)
	if err != nil {
		return nil, err
	}
	err = s.inDir(u.name, func() error { return u.open(unix.O_CREAT | unix.O_EXCL) })
	switch {
	case err == nil:
	case errors.Is(err, unix.EEXIST):
		return nil, &fault{"create", key, storage.ErrConflict, nil}
	case errors.Is(err, unix.EWOULDBLOCK): // before it was locked
		return nil, &fault{"create", key, storage.ErrUploadTaken, nil}
	default:
		return nil, s.writeFault("create", key, err)
	}
	s.states.take(key)
	if before := s.hold(u); before != nil {
		before.fence() // what it wrote was deleted
	}
	return u, nil
}

// ResumeUpload implements storage.Store. It waits for an Apply of the same upload
// that is under way.
func (s *Store) ResumeUpload(ctx context.Context, key string) (storage.Upload, error) {
	u, err := s.newUpload(ctx, "resume", key)
	if err != nil {
		return nil, err
	}
	u.mu.Lock() // whoever comes next and fences u waits
	defer u.mu.Unlock()
	if before := s.hold(u); before != nil {
		before.fence()
	}
	if err := u.takeOver(ctx); err != nil {
		s.unhold(u)
		if isNotExist(err) || errors.Is(err, unix.EISDIR) {
			return nil, s.readFault("resume", key, err)
		}
		return nil, s.writeFault("resume", key, err)
	}
	return u, nil
}

func (s *Store) newUpload(ctx context.Context, op, key string) (*upload, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := s.abs(op, key)
	return &upload{s: s, key: key, name: name, fd: -1, looked: time.Now()}, err
}

// open opens the file, locks it and learns its size. EWOULDBLOCK if another process
// has it, or EEXIST with flags.
func (u *upload) open(flags int) error {
	openFile := open
	if flags != 0 {
		openFile = u.s.create
	}
	fd, err := openFile(u.name, unix.O_RDWR|unix.O_APPEND|unix.O_NONBLOCK|flags)
	if err != nil {
		return err
	}
	var st, named unix.Stat_t
	err = flock(fd, unix.LOCK_EX)
	if err == nil && flags == 0 { // a new one is empty
		if err = unix.Fstat(fd, &st); err == nil {
			err = stat(u.name, &named)
		}
		if err == nil && (named.Ino != st.Ino || !isFile(&st)) {
			err = unix.ENOENT // applied or deleted since
		}
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	u.fd, u.size, u.started, u.arrived = fd, st.Size, st.Size, st.Size
	if flags == 0 {
		u.state = u.s.states.of(u.key, &st)
		u.answer(&st)
	}
	return nil
}

// usable needs u.mu.
func (u *upload) usable() error {
	switch {
	case u.taken:
		return storage.ErrUploadTaken
	case u.fd < 0 || u.applied != nil:
		return storage.ErrUploadDone
	}
	return u.doubt
}

// Write implements storage.Upload.
func (u *upload) Write(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.yield()
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

// pace sends a window that is full on its way to the disk, and waits for the
// oldest one if there are too many.
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
		drop(u.name)
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

// Suspend implements storage.Upload. The state stays in this process: after its
// death the bytes have to be read again.
func (u *upload) Suspend(_ context.Context, state []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken {
		return storage.ErrUploadTaken
	}
	if u.fd < 0 {
		return nil
	}
	defer u.close()
	if u.doubt != nil {
		return u.doubt
	}
	return u.s.states.keep(u.key, u.fd, state)
}

// close needs u.mu.
func (u *upload) close() {
	if u.fd >= 0 {
		closeFD(u.fd)
		u.fd = -1
		u.s.unhold(u)
	}
}

// Cancel implements storage.Upload.
func (u *upload) Cancel(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken {
		return storage.ErrUploadTaken
	}
	if u.fd < 0 {
		return nil
	}
	err := unlink(u.name)
	u.close()
	u.s.prune(dirOf(u.name), 1)
	return ignoreNotExist(err)
}

// seal lends the file to an Apply: nothing is written any more. The Apply ends
// with release.
func (u *upload) seal() (fd int, size int64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(u.fd, &st); err != nil {
		return -1, 0, u.s.writeFault("apply", u.key, err)
	}
	switch {
	case st.Nlink == 0:
		return -1, 0, u.s.readFault("apply", u.key, unix.ENOENT)
	case st.Size != u.size:
		return -1, 0, &fault{"apply", u.key, storage.ErrUploadTaken, fmt.Errorf("it has %d bytes instead of %d", st.Size, u.size)}
	}
	u.applied = make(chan struct{})
	return u.fd, u.size, nil
}

// release closes the upload, sealed or not.
func (u *upload) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.applied != nil {
		close(u.applied)
		u.applied = nil
	}
	u.close()
}
