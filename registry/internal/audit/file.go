package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// readsSuffix is appended to the name of the file for pulls and refusals.
const readsSuffix = ".reads"

// File is a sink that appends to a file, which another program may rotate. Pulls and refusals, of which
// anyone may cause any number, go to PATH.reads, so that a rotation by size keeps the others.
type File struct {
	path  string
	reads *File // nil for that file itself

	mu   sync.Mutex
	file *os.File // nil = has to be opened
}

// OpenFile opens or makes the file, readable by its owner only. One that root makes belongs
// to the owner of the directory: a command of an administrator must not keep the server, which
// runs as another user, from writing there. After an error Write tries again.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, reads: &File{path: path + readsSuffix}}
	return f, errors.Join(f.open(), f.reads.open())
}

func (f *File) open() error {
	file, err := openLike(f.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	if err := f.endLine(info.Size()); err != nil {
		f.drop() // otherwise the next line would continue where the last one was cut off
		return err
	}
	return nil
}

// maxTries bounds the attempts to open a file that is being rotated.
const maxTries = 10

// openLike opens the file, or makes one like its directory. It follows only links that may be
// trusted: the directory's owner could have laid one to a file of root.
func openLike(path string) (file *os.File, err error) {
	const flags = os.O_APPEND | os.O_RDWR
	for range maxTries {
		if file, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
			return likeDirectory(file, err)
		}
		if file, err = os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0); errors.Is(err, syscall.ELOOP) {
			if err = checkLink(path); err == nil {
				return os.OpenFile(path, flags|os.O_CREATE, 0o600)
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}

// checkLink lets root follow no link but its own.
func checkLink(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && owner.Uid != 0 {
		return fmt.Errorf("%s is a symbolic link of user %d, and root follows none but its own", path, owner.Uid)
	}
	return nil
}

// likeDirectory gives a file that root has made to the owner of its directory.
func likeDirectory(file *os.File, err error) (*os.File, error) {
	if err != nil || os.Geteuid() != 0 {
		return file, err
	}
	if dir, err := os.Stat(filepath.Dir(file.Name())); err == nil {
		if owner, ok := dir.Sys().(*syscall.Stat_t); ok {
			_ = file.Chown(int(owner.Uid), int(owner.Gid)) // where that is refused it stays as it is
		}
	}
	return file, nil
}

// endLine ends a line that a crash or a full disk has cut off, so that the next one
// stands alone.
func (f *File) endLine(size int64) error {
	if size == 0 {
		return nil
	}
	var last [1]byte
	if _, err := f.file.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err := f.file.Write([]byte{'\n'})
	return err
}

// Write appends a line.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	if err != nil {
		f.drop() // what was cut off gets its end when the file is opened again
	}
	return n, err
}

// Reopen opens the file again at the next line.
func (f *File) Reopen() {
	if f.reads != nil {
		f.reads.Reopen()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
}

func (f *File) drop() {
	if f.file != nil {
		f.file.Close()
	}
	f.file = nil
}

// Close makes what was written durable.
func (f *File) Close() (err error) {
	if f.reads != nil {
		err = f.reads.Close()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		err = errors.Join(err, f.file.Sync())
		f.drop()
	}
	return err
}

// Unclosed is a sink that its owner closes.
type Unclosed struct{ io.Writer }

// Close implements io.Closer.
func (Unclosed) Close() error { return nil }
