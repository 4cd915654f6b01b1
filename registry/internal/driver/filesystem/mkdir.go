package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"
)

// attempts is how often an operation is tried that needs a directory which
// others, who tidy, remove.
const attempts = 16

// mkdirAll creates a directory and those above it, up to the root.
func (d *Driver) mkdirAll(dir string) error {
	for range attempts {
		err := d.mkdir(dir)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		parent := dirOf(dir)
		if !errors.Is(err, unix.ENOENT) || parent == d.rootDir() {
			return err
		}
		if err := d.mkdirAll(parent); err != nil {
			return err
		}
	}
	return unix.ENOENT
}

// mkdir creates a directory. What lies directly in the root is created only in
// the root that was opened: a lost mount leaves an empty directory that can
// very well be written to.
func (d *Driver) mkdir(dir string) error {
	if dirOf(dir) == d.rootDir() && d.vanished() {
		return unix.ENOENT
	}
	err := mkdir(dir)
	if err == nil {
		d.durable.forget(dir)
	}
	return err
}

// inDir calls do, which needs the directory of name, and creates it if do finds
// it missing. Others may remove it at once; if they do so again and again, those
// in this process wait for once.
func (d *Driver) inDir(name string, do func() error) error {
	for i := range attempts {
		err := do()
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if i == attempts/4 {
			d.removing.Lock()
			defer d.removing.Unlock()
		}
		if err := d.mkdirAll(dirOf(name)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}
