package filesystem

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

var errProbe = errors.New("what was written reads differently")

// Check implements driver.Driver. The small object is a file in the private
// directory.
func (d *Driver) Check(ctx context.Context, write bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.checkRead(); err != nil {
		return d.readFault("check", "/", err)
	}
	if !write {
		return nil
	}
	if err := d.checkWrite(); err != nil {
		return d.writeFault("check", "/", err)
	}
	return nil
}

func (d *Driver) checkRead() error {
	if d.vanished() {
		return unix.ENOENT
	}
	fd, err := open(d.rootDir(), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	_, err = readDir(fd)
	return err
}

// checkWrite writes, flushes, reads and removes a probe. On the way it learns
// the time of the file system, by which it sweeps.
func (d *Driver) checkWrite() error {
	content := []byte(time.Now().Format(time.RFC3339Nano))
	name, fd, err := d.createTemp() // no spare, which a full disk would let pass
	if err != nil {
		return err
	}
	defer closeFD(fd)
	defer drop(name) // again, if need be
	if _, err := writeAll(fd, content); err != nil {
		return err
	}
	if err := syncFile(fd); err != nil {
		return err
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content) {
		return &fault{"check", "/", driver.ErrUnavailable, errProbe}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	d.sweep(time.Unix(st.Mtim.Unix()))
	return unlink(name)
}
