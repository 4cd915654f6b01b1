package filesystem

import (
	"errors"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// tempName returns a path in the staging directory that was never used before.
func (s *Store) tempName() string {
	var b [20]byte
	return s.staging + "/" + s.instance + "-" + string(strconv.AppendUint(b[:0], s.counter.Add(1), 36)) + tempSuffix
}

// tempSuffix ends the names of files that are not whole, of distribution too.
const tempSuffix = ".tmp"

// createTemp opens a new file in the staging directory, which it creates if
// need be.
func (s *Store) createTemp() (name string, fd int, err error) {
	if s.alive.Load() < 0 {
		if err := s.makeStaging(); err != nil {
			return "", -1, err
		}
	}
	name = s.tempName()
	if fd, err = s.create(name, unix.O_WRONLY|unix.O_EXCL); !errors.Is(err, unix.ENOENT) || s.vanished() {
		return name, fd, err
	}
	if err := s.makeStaging(); err != nil {
		return "", -1, err
	}
	fd, err = s.create(name, unix.O_WRONLY|unix.O_EXCL)
	return name, fd, err
}

// writeTemp writes a file in the staging directory and leaves it open.
func (s *Store) writeTemp(content []byte) (name string, fd int, err error) {
	if name, fd, err = s.createTemp(); err != nil {
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
func (s *Store) writeBeside(name string, content []byte) error {
	temp := name + "." + path.Base(s.tempName())
	fd, err := s.create(temp, unix.O_WRONLY|unix.O_EXCL)
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
// what stays is private and deleted by Clean, or passed over by readers.
func drop(name string) {
	if errors.Is(unlink(name), unix.EISDIR) {
		os.RemoveAll(name) //nolint:errcheck // see above
	}
}
