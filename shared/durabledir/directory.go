// Package durabledir makes names in directories outlive a power loss.
package durabledir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Sync flushes the entries of a directory. Some file systems (CIFS, a few of FUSE) have
// no such call for directories and nothing better, so there it does nothing.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !isUnsupported(err) {
		return err
	}
	return nil
}

func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ESPIPE)
}

// Make makes a directory, and those above it that are missing with the mode 0777, and
// flushes the entry of each that it makes. ENOTDIR if there is something else.
func Make(dir string, mode fs.FileMode) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := Make(parent, 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(parent)
}

// Replace replaces the file at path, or makes it, atomically and durably. It has the mode 0600; own, if not nil, may change mode and owner
// before anything is written. Calls for one path must not overlap: the temporary file has a fixed name, so that a writer that is killed
// leaves at most one.
func Replace(path string, content []byte, own func(*os.File) error) error {
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+".new")
	_ = os.Remove(temp) // if it stays, it can't be made
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if own != nil {
		err = own(f)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return Sync(filepath.Dir(path))
}
