package filesystem

import (
	"errors"
	"os"
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

// writeTemp writes a file in the staging directory and leaves it open.
func (s *Store) writeTemp(content []byte) (name string, fd int, err error) {
	if s.alive.Load() < 0 {
		if err := s.makeStaging(); err != nil {
			return "", -1, err
		}
	}
	name = s.tempName()
	if fd, err = s.writeNew(name, content); errors.Is(err, unix.ENOENT) && !s.vanished() {
		if err = s.makeStaging(); err == nil {
			fd, err = s.writeNew(name, content)
		}
	}
	return name, fd, err
}

// writeNew writes a file that is not there and leaves it open.
func (s *Store) writeNew(name string, content []byte) (fd int, err error) {
	if fd, err = s.create(name, unix.O_WRONLY|unix.O_EXCL); err != nil {
		return -1, err
	}
	if _, err := writeAll(fd, content); err != nil {
		closeFD(fd)
		drop(name)
		return -1, err
	}
	return fd, nil
}

// drop deletes a file or a tree of which nobody has to know whether that worked:
// what stays is private and deleted by Clean, or passed over by readers.
func drop(name string) {
	if errors.Is(unlink(name), unix.EISDIR) {
		os.RemoveAll(name) //nolint:errcheck // see above
	}
}
