package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"
)

// # Directories
//
// A directory is made when a file needs it and removed with its last file, so
// a writer may find it gone at any moment, and makes it again.

// attempts is how often an operation is tried that needs a directory which
// others remove.
const attempts = 16

// mkdirAll creates a directory and those above it, up to the root.
func (s *Store) mkdirAll(dir string) error {
	for range attempts {
		err := s.mkdir(dir)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		parent := dirOf(dir)
		if !errors.Is(err, unix.ENOENT) || parent == s.rootDir() {
			return err
		}
		if err := s.mkdirAll(parent); err != nil {
			return err
		}
	}
	return unix.ENOENT
}

// inDir calls do, which needs the directory of name, and creates it if do finds
// it missing. If others remove it again and again, those in this process wait
// for once.
func (s *Store) inDir(name string, do func() error) error {
	for i := range attempts {
		err := do()
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if i == attempts/4 {
			s.removing.Lock()
			defer s.removing.Unlock()
		}
		if err := s.mkdirAll(dirOf(name)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}

// prune removes dir and those above it, no more than levels of them, as long as
// nothing is in them. It returns the first that is left.
func (s *Store) prune(dir string, levels int) string {
	s.removing.RLock()
	defer s.removing.RUnlock()
	for i := 0; i < levels && dir != s.rootDir(); i++ {
		s.durable.forget(dir)
		err := rmdir(dir)
		// The directory of uploads stays for the next upload; it does not keep a
		// repository.
		if err != nil && i > 0 && rmdir(dir+"/_uploads") == nil {
			err = rmdir(dir)
		}
		if err != nil && !isNotExist(err) {
			break
		}
		dir = dirOf(dir)
	}
	return dir
}
