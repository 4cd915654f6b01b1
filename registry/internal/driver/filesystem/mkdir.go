package filesystem

import (
	"path"

	"golang.org/x/sys/unix"
)

// attempts is how often an operation is tried that needs a directory which
// others, who tidy, remove.
const attempts = 16

// mkdirAll creates a directory and those above it, up to the root. The root
// itself is never created: if it is gone, its mount is.
func (d *Driver) mkdirAll(dir string) error {
	for range attempts {
		err := mkdir(dir)
		switch err { //nolint:errorlint // a bare errno
		case nil:
			d.durable.forget(dir)
			return nil
		case unix.EEXIST:
			return nil
		case unix.ENOENT:
		default:
			return err
		}
		parent := path.Dir(dir)
		if parent == d.rootDir() {
			return err
		}
		if err := d.makeParent(parent); err != nil {
			return err
		}
	}
	return unix.ENOENT
}

func (d *Driver) makeParent(parent string) error {
	if path.Dir(parent) == d.rootDir() && d.vanished() {
		return unix.ENOENT
	}
	return d.mkdirAll(parent)
}

// inDir calls do, which needs the directory of name, and creates it if do finds
// it missing.
func (d *Driver) inDir(name string, do func() error) error {
	for range attempts {
		err := do()
		if err != unix.ENOENT { //nolint:errorlint // a bare errno
			return err
		}
		if err := d.mkdirAll(path.Dir(name)); err != nil {
			return err
		}
	}
	return unix.ENOENT
}
