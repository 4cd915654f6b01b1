package ocilayout

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writer writes the files of a layout. The index comes last, so that what was
// broken off is none.
type writer interface {
	put(name string, size int64, content io.Reader) error
	finish() error
	discard() error
}

// create makes a directory, or a tar file if the path says so. Neither may hold
// a layout already, nor a directory other files.
func create(path string) (writer, error) {
	if strings.HasSuffix(path, ".tar") {
		return createTar(path)
	}
	if _, err := os.Stat(filepath.Join(path, indexFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, fs.ErrExist), err)
	}
	if err := onlyLayout(path); err != nil {
		return nil, err
	}
	return directory(path), os.MkdirAll(path, 0o755)
}

// onlyLayout refuses a directory of other files. One that an interrupted export has
// left may be written again.
func onlyLayout(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(path, versionFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds other files and is no OCI layout: name a new or an empty directory", path)
	} else if err != nil {
		return err
	}
	return nil
}

// directory is a writer.
type directory string

func (d directory) put(name string, _ int64, content io.Reader) error {
	file := filepath.Join(string(d), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // it has another name if all went well
	_, err = io.Copy(temp, content)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

func (d directory) finish() error  { return nil }
func (d directory) discard() error { return nil } // the content is harmless, and may be the user's

// tarFile is a writer that has another name until it is finished.
type tarFile struct {
	path string
	file *os.File
	tar  *tar.Writer
}

func createTar(path string) (writer, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, fs.ErrExist), err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, err
	}
	return &tarFile{path: path, file: file, tar: tar.NewWriter(file)}, nil
}

func (t *tarFile) put(name string, size int64, content io.Reader) error {
	// One time for all, so that the same content makes the same file.
	err := t.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = io.Copy(t.tar, content)
	}
	return err
}

func (t *tarFile) finish() error {
	err := errors.Join(t.tar.Close(), t.file.Chmod(0o644), t.file.Sync(), t.file.Close())
	if err == nil {
		err = os.Rename(t.file.Name(), t.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.file.Name()))
	}
	return nil
}

func (t *tarFile) discard() error {
	return errors.Join(t.file.Close(), os.Remove(t.file.Name()))
}
