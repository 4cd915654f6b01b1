package filesystem

import (
	"context"
	"errors"

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
	if !d.useSpare(name, content) {
		if err := d.writeScratch(name, content); err != nil {
			return d.writeFault("write", path, err)
		}
	}
	d.spares.wrote(name, content)
	return nil
}

func (d *Driver) writeScratch(name string, content []byte) error {
	temp, fd, err := d.writeTemp(content)
	if err != nil {
		return err
	}
	closeFD(fd)
	err = d.inDir(name, func() error { return rename(temp, name) })
	if err != nil {
		drop(temp)
	}
	if errors.Is(err, unix.EXDEV) {
		err = d.writeBeside(name, content)
	}
	return err
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
	d.removing.RLock()
	defer d.removing.RUnlock()
	if d.keep(name) {
		return nil
	}
	if err := d.discard(name); err != nil {
		return d.writeFault("remove", path, err)
	}
	return nil
}

// discard removes a file or a tree, to which somebody may still be adding.
func (d *Driver) discard(name string) error {
	err := error(unix.ENOTEMPTY)
	for i := 0; i < attempts && errors.Is(err, unix.ENOTEMPTY); i++ {
		err = d.discardOnce(name)
	}
	return ignoreNotExist(err)
}

func (d *Driver) discardOnce(name string) error {
	if err := unlink(name); err != unix.EISDIR { //nolint:errorlint // a bare errno
		return err
	}
	fd, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) { // a file, a symbolic link
		return unlink(name)
	}
	if err != nil {
		return err
	}
	entries, err := readDir(fd)
	closeFD(fd)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.discard(name + "/" + e.name); err != nil {
			return err
		}
	}
	return rmdir(name)
}

func ignoreNotExist(err error) error {
	if isNotExist(err) {
		return nil
	}
	return err
}
