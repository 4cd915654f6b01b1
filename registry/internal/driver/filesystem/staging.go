package filesystem

import (
	"errors"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// tempName returns a path in the staging directory that was never used before.
func (d *Driver) tempName() string {
	return d.staging + "/" + d.tempBase() + ".tmp"
}

// tempBase is a name that no process of any machine has used.
func (d *Driver) tempBase() string {
	var b [20]byte
	return d.instance + "-" + string(strconv.AppendUint(b[:0], d.counter.Add(1), 36))
}

// createTemp opens a new file in the staging directory, which it creates if
// need be, but only in the root that was opened.
func (d *Driver) createTemp() (name string, fd int, err error) {
	if d.locked.Load() < 0 && !d.vanished() { // it could not be made at the start
		if err := d.makeStaging(); err != nil {
			return "", -1, err
		}
	}
	name = d.tempName()
	create := func() error {
		fd, err = open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		return err
	}
	if err := create(); !errors.Is(err, unix.ENOENT) || d.vanished() {
		return name, fd, err
	}
	if err := d.makeStaging(); err != nil {
		return "", -1, err
	}
	return name, fd, create()
}

// writeTemp writes a file in the staging directory and leaves it open.
func (d *Driver) writeTemp(content []byte) (name string, fd int, err error) {
	if name, fd, err = d.createTemp(); err != nil {
		return "", -1, err
	}
	if _, err := writeAll(fd, content); err != nil {
		closeFD(fd)
		drop(name)
		return "", -1, err
	}
	return name, fd, nil
}

// writeBeside writes and flushes a file in the directory where it belongs, for
// trees that lie on another file system than the root: then nothing can be
// renamed out of the staging directory. Distribution 3 names such files alike.
func (d *Driver) writeBeside(name string, content []byte) error {
	temp := name + "." + path.Base(d.tempName())
	fd, err := open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if _, err = writeAll(fd, content); err == nil {
		err = syncFile(fd)
	}
	if err == nil {
		err = rename(temp, name)
	}
	if err != nil {
		drop(temp)
	}
	return err
}

// drop deletes a file or a tree of which nobody has to know whether that worked:
// what stays is private and swept later, or passed over by readers.
func drop(name string) {
	if errors.Is(unlink(name), unix.EISDIR) {
		os.RemoveAll(name) //nolint:errcheck // see above
	}
}
