package filesystem

import (
	"context"

	"golang.org/x/sys/unix"
)

// WriteScratch implements driver.Driver.
func (d *Driver) WriteScratch(ctx context.Context, path string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := d.abs("write", path)
	if err != nil {
		return err
	}
	temp, fd, err := d.writeTemp(content)
	if err != nil {
		return d.writeFault("write", path, err)
	}
	closeFD(fd)
	if err := d.inDir(name, func() error { return rename(temp, name) }); err != nil {
		unlink(temp) //nolint:errcheck // swept later
		return d.writeFault("write", path, err)
	}
	return nil
}

// Discard implements driver.Driver.
func (d *Driver) Discard(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := d.abs("remove", path)
	if err != nil {
		return err
	}
	if d.durable.has(name) { // never so for an upload
		d.durable.forgetTree(name)
	}
	if err := discard(name); err != nil {
		return d.writeFault("remove", path, err)
	}
	return nil
}

// discard removes a file or a tree. Most of what is discarded is a directory
// with one file in it.
func discard(name string) error {
	err := unlink(name)
	if err == unix.EISDIR { //nolint:errorlint // a bare errno
		err = rmdir(name)
	}
	// Somebody may still be adding to it.
	for i := 0; i < attempts && err == unix.ENOTEMPTY; i++ { //nolint:errorlint // a bare errno
		if err = discardChildren(name); err == nil {
			err = rmdir(name)
		}
	}
	return ignoreNotExist(err)
}

func discardChildren(dir string) error {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	entries, err := readDir(fd)
	closeFD(fd)
	for _, e := range entries {
		if err == nil {
			err = discard(dir + "/" + e.name)
		}
	}
	return err
}

func ignoreNotExist(err error) error {
	if isNotExist(err) {
		return nil
	}
	return err
}
