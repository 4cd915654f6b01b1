package filesystem

import (
	"cmp"
	"context"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// Now implements driver.Driver. Where another machine makes the time stamps,
// its clock is asked for once in a while.
func (d *Driver) Now() time.Time {
	if d.localClock {
		return time.Now()
	}
	return d.remote.now(d)
}

// Touch implements driver.Driver. Whoever may write a file may set its time to
// now; another time only its owner may set.
func (d *Driver) Touch(_ context.Context, name string, at time.Time) error {
	file, err := d.abs("touch", name)
	if err != nil {
		return err
	}
	now := stampNow()
	times := []unix.Timespec{now, now}
	if !at.IsZero() {
		stamp := unix.NsecToTimespec(at.UnixNano())
		times = []unix.Timespec{stamp, stamp}
	}
	err = retry(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, times, 0) })
	switch {
	case err == nil:
		return nil
	case isNotExist(err):
		return d.readFault("touch", name, err)
	}
	return d.writeFault("touch", name, err)
}

// SetAside implements driver.Driver.
func (d *Driver) SetAside(ctx context.Context, from, to string) error {
	_, err := d.move(ctx, "set aside", from, to)
	return err
}

// Restore implements driver.Driver.
func (d *Driver) Restore(ctx context.Context, from, to string) error {
	name, err := d.move(ctx, "restore", from, to)
	if err != nil {
		return err
	}
	dirs := d.durable.unflushed(name)
	for _, dir := range dirs {
		if err := ignoreNotExist(syncDir(dir)); err != nil {
			return d.writeFault("restore", to, err)
		}
	}
	return nil
}

func (d *Driver) move(ctx context.Context, op, from, to string) (name string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	old, err := d.abs(op, from)
	if err != nil {
		return "", err
	}
	if name, err = d.abs(op, to); err != nil {
		return "", err
	}
	// A missing directory and a missing file have the same errno.
	var st unix.Stat_t
	if err := stat(old, &st); err != nil {
		return "", d.readFault(op, from, err)
	}
	if isDir(&st) {
		return "", d.readFault(op, from, unix.EISDIR)
	}
	err = d.inDirAnyhow(name, func() error {
		err := moveNew(old, name)
		if isNotExist(err) && stat(old, &st) != nil {
			return errGone
		}
		return err
	})
	//nolint:errorlint // bare errnos
	switch err {
	case nil:
		return name, nil
	case errGone:
		return "", d.readFault(op, from, unix.ENOENT)
	case unix.EEXIST:
		return "", &fault{op, to, driver.ErrExist, nil}
	}
	return "", d.writeFault(op, from, err)
}

const errGone = unix.ESRCH // no call on files returns it

// moveNew renames a file to a name where nothing is.
func moveNew(from, to string) error {
	err := renameNew(from, to)
	if err != unix.EINVAL && err != unix.ENOSYS { //nolint:errorlint // bare errnos
		return err
	}
	// The file system cannot do that (NFS): for a moment the file has both
	// names, and whoever finds only the new one has found it.
	if err := retry(func() error { return unix.Link(from, to) }); err != nil {
		return err
	}
	return ignoreNotExist(unlink(from))
}

// Prune implements driver.Driver.
func (d *Driver) Prune(_ context.Context, dir string) error {
	name, err := d.abs("tidy", dir)
	if err != nil {
		return err
	}
	d.removing.RLock()
	defer d.removing.RUnlock()
	err = rmdir(name)
	//nolint:errorlint // a bare errno
	switch err {
	case nil:
		d.durable.forget(name) // nothing was in it
		return nil
	case unix.ENOTEMPTY, unix.EEXIST, unix.ENOENT, unix.ENOTDIR, unix.EBUSY:
		return nil
	default:
		return d.writeFault("tidy", dir, err)
	}
}

// maxFlush is how many directories are flushed one by one; for more the whole
// file system is. flushHands is how many of them wait for the disk at the same
// time, so that it can flush once for several.
const maxFlush, flushHands = 256, 16

// Flush implements driver.Driver.
func (d *Driver) Flush(ctx context.Context, dirs ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(dirs) > maxFlush {
		return d.flushAll()
	}
	var wg sync.WaitGroup
	errs, hands := make([]error, len(dirs)), make(chan struct{}, flushHands)
	for i, dir := range dirs {
		hands <- struct{}{}
		wg.Go(func() {
			errs[i] = d.flushOne(dir)
			<-hands
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

func (d *Driver) flushOne(dir string) error {
	name, err := d.abs("flush", dir)
	if err != nil {
		return err
	}
	if err := ignoreNotExist(syncDir(name)); err != nil {
		return d.writeFault("flush", dir, err)
	}
	return nil
}

func (d *Driver) flushAll() error {
	fd, err := open(d.rootDir(), unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		defer closeFD(fd)
		err = flushFileSystem(fd)
	}
	if err != nil {
		return d.writeFault("flush", "/", err)
	}
	return nil
}

// private opens a file in the directory of locks, which it creates if need be.
func (d *Driver) private(name string) (fd int, err error) { return d.privateAs(name, unix.O_RDWR) }

// privateAs is private for reading only, too. A file that is open for writing
// keeps its file system from being remounted read-only: what is locked for the
// life of the process is locked with others (LOCK_SH), for which reading is
// enough, on NFS too, and who looks whether it is locked tries to be alone.
func (d *Driver) privateAs(name string, mode int) (fd int, err error) {
	file := d.locks + "/" + name
	create := func() error {
		fd, err = open(file, mode|unix.O_CREAT)
		return err
	}
	if err := create(); err != unix.ENOENT || d.vanished() { //nolint:errorlint // a bare errno
		return fd, err
	}
	for _, dir := range []string{d.locks, path.Dir(file)} {
		if err := mkdir(dir); err != nil && err != unix.EEXIST { //nolint:errorlint // a bare errno
			return -1, err
		}
	}
	return fd, create()
}
