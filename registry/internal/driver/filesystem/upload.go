package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// An upload is sent on its way to the disk in windows while it is being written,
// and waits when ahead are not there yet, so that neither memory nor the flush
// at the end grows with the upload.
const (
	window = 8 << 20
	ahead  = 4 * window
)

// upload is a driver.Upload: an open file. While one is open, its file is
// locked (flock), so that another process cannot take it over: the bytes that
// a hung writer still gets would end in a blob.
type upload struct {
	d          *Driver
	path, name string // below the root; absolute

	mu      sync.Mutex
	fd      int           // -1 when it is closed
	size    int64         // written
	started int64         // of that, sent on its way to the disk
	arrived int64         // of that, written to the disk
	doubt   error         // a write to the disk failed: the bytes are lost, and no flush says so again
	taken   bool          // by another session
	commit  chan struct{} // closed when the commit that has it ends; or nil
}

// CreateUpload implements driver.Driver.
func (d *Driver) CreateUpload(ctx context.Context, path string) (driver.Upload, error) {
	u, err := d.newUpload(ctx, "create", path)
	if err != nil {
		return nil, err
	}
	err = d.inDir(u.name, func() error { return u.open(unix.O_CREAT | unix.O_EXCL) })
	if err != nil {
		return nil, d.writeFault("create", path, err)
	}
	d.spares.created(u.name, 1)
	if before := d.hold(u); before != nil {
		before.fence() // what it wrote was discarded
	}
	return u, nil
}

// OpenUpload implements driver.Driver. It waits for a commit of the same upload
// that is under way.
func (d *Driver) OpenUpload(ctx context.Context, path string) (driver.Upload, error) {
	u, err := d.newUpload(ctx, "open", path)
	if err != nil {
		return nil, err
	}
	u.mu.Lock() // whoever comes next and fences u waits
	defer u.mu.Unlock()
	if before := d.hold(u); before != nil {
		before.fence()
	}
	if err := u.open(0); err != nil {
		d.unhold(u)
		if isNotExist(err) || errors.Is(err, unix.EISDIR) {
			return nil, d.readFault("open", path, err)
		}
		return nil, d.writeFault("open", path, err)
	}
	return u, nil
}

func (d *Driver) newUpload(ctx context.Context, op, path string) (*upload, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := d.abs(op, path)
	return &upload{d: d, path: path, name: name, fd: -1}, err
}

// UploadSize implements driver.Driver.
func (d *Driver) UploadSize(ctx context.Context, path string) (int64, error) {
	info, err := d.Stat(ctx, path)
	if err == nil && info.Dir {
		err = d.readFault("stat", path, unix.EISDIR)
	}
	return info.Size, err
}

// hold makes u the writer of its path and returns the one before.
func (d *Driver) hold(u *upload) (before *upload) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before = d.holders[u.path]
	d.holders[u.path] = u
	return before
}

func (d *Driver) unhold(u *upload) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders[u.path] == u {
		delete(d.holders, u.path)
	}
}

// open opens the file, locks it and learns its size.
func (u *upload) open(flags int) error {
	fd, err := open(u.name, unix.O_RDWR|unix.O_APPEND|flags)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = lock(fd); err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Nlink == 0 {
		err = unix.ENOENT // committed or cancelled since
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	u.fd, u.size, u.started, u.arrived = fd, st.Size, st.Size, st.Size
	return nil
}

// lock takes the file from other processes. File systems without locks do
// without.
func lock(fd int) error {
	if errors.Is(tryLock(fd), unix.EWOULDBLOCK) {
		return fmt.Errorf("another process is writing it: %w", driver.ErrUploadTaken)
	}
	return nil
}

// usable needs u.mu.
func (u *upload) usable() error {
	switch {
	case u.taken:
		return driver.ErrUploadTaken
	case u.fd < 0 || u.commit != nil:
		return driver.ErrUploadDone
	}
	return u.doubt
}

// Write implements driver.Upload.
func (u *upload) Write(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return 0, err
	}
	n, err = writeAll(u.fd, p)
	u.size += int64(n)
	if err != nil {
		return n, u.d.writeFault("write", u.path, err)
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
		u.doubt = u.d.writeFault("write", u.path, err)
		drop(u.name)
	}
	return u.doubt
}

// Size implements driver.Upload.
func (u *upload) Size() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.size
}

// Reader implements driver.Upload.
func (u *upload) Reader(_ context.Context, offset int64) (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return nil, err
	}
	if offset < 0 || offset > u.size {
		return nil, fmt.Errorf("read %s: offset %d is outside of %d bytes", u.path, offset, u.size)
	}
	fd, err := open(u.name, unix.O_RDONLY)
	if err != nil {
		return nil, u.d.readFault("read", u.path, err)
	}
	if _, err := unix.Seek(fd, offset, io.SeekStart); err != nil {
		closeFD(fd)
		return nil, u.d.readFault("read", u.path, err)
	}
	return os.NewFile(uintptr(fd), u.path), nil
}

// Close implements driver.Upload.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.close()
	return nil
}

// close needs u.mu.
func (u *upload) close() {
	if u.fd >= 0 {
		closeFD(u.fd)
		u.fd = -1
		u.d.unhold(u)
	}
}

// Cancel implements driver.Upload.
func (u *upload) Cancel(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken {
		return driver.ErrUploadTaken
	}
	if u.fd < 0 {
		return nil
	}
	err := unlink(u.name)
	u.close()
	if err != nil && !isNotExist(err) {
		return u.d.writeFault("remove", u.path, err)
	}
	u.d.spares.created(u.name, -1)
	return nil
}

// fence ends the session for another one. A write under way is finished, so
// the size stands still; a commit under way is waited for.
func (u *upload) fence() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.commit != nil {
		ended := u.commit
		u.mu.Unlock()
		<-ended
		u.mu.Lock()
	}
	u.taken = u.taken || u.fd >= 0
	u.close()
}

// seal lends the file to a commit: nothing is written any more. The commit ends
// with release.
func (u *upload) seal() (fd int, size int64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(u.fd, &st); err != nil {
		return -1, 0, u.d.writeFault("commit", u.path, err)
	}
	switch {
	case st.Nlink == 0:
		return -1, 0, u.d.readFault("commit", u.path, unix.ENOENT)
	case st.Size != u.size:
		return -1, 0, &fault{"commit", u.path, driver.ErrUploadTaken, fmt.Errorf("it has %d bytes instead of %d", st.Size, u.size)}
	}
	u.commit = make(chan struct{})
	return u.fd, u.size, nil
}

// release closes the upload, sealed or not.
func (u *upload) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.commit != nil {
		close(u.commit)
		u.commit = nil
	}
	u.close()
}
