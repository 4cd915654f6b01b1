package filesystem

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// staging is the token of attempts: a directory in which this process writes new files. It
// exists before the attempt begins. Once a collection has removed it, none of its files can
// be renamed into place any more.
type staging struct {
	dir   string
	files atomic.Uint64
	err   error // why there is no directory
}

// Begin implements storage.Store.
func (s *Store) Begin() *storage.Attempt {
	d := s.currentStaging()
	return storage.NewAttempt(time.Now(), fresh, d, nil)
}

func (s *Store) currentStaging() *staging {
	if d := s.current.Load(); d != nil {
		return d
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	if d := s.current.Load(); d != nil {
		return d
	}
	d := &staging{dir: s.staging + "/" + rand.Text()}
	if d.err = s.makeStaging(d.dir); d.err == nil {
		s.current.Store(d)
	}
	return d
}

// makeStaging creates a staging directory, and checks the clock that stamps its files:
// collections compare it to this machine's.
func (s *Store) makeStaging(dir string) error {
	before := time.Now()
	err := s.mkdir(dir)
	if errors.Is(err, unix.ENOENT) {
		if err = s.mkdir(s.staging); err == nil || errors.Is(err, unix.EEXIST) {
			err = s.mkdir(dir)
		}
	}
	var st unix.Stat_t
	if err == nil {
		err = stat(dir, &st)
	}
	if err != nil {
		return err
	}
	if err = checkClock(time.Unix(st.Mtim.Unix()), before, time.Now()); err != nil {
		_ = rmdir(dir)
	}
	return err
}

// checkClock checks the stamp of a file that was made between two times.
func checkClock(stamp, before, after time.Time) error {
	if stamp.Before(before.Add(-storage.ClockError)) || stamp.After(after.Add(storage.ClockError)) {
		return fmt.Errorf("the file system's clock is at %s, this machine's at %s: synchronize them", stamp.Format(time.RFC3339), before.Format(time.RFC3339))
	}
	return nil
}

// write writes a file in the directory that will be renamed to name, and leaves it open.
func (s *Store) write(d *staging, name string, content []byte) (temp string, fd int, err error) {
	if d.err != nil {
		return "", -1, s.revoked(d, d.err)
	}
	temp = d.dir + "/" + strconv.FormatUint(d.files.Add(1), 36)
	if fd, err = s.create(temp, name, unix.O_WRONLY|unix.O_EXCL); err != nil {
		return "", -1, s.revoked(d, err)
	}
	if _, err := writeAll(fd, content); err != nil {
		closeFD(fd)
		_ = unlink(temp)
		return "", -1, err
	}
	return temp, fd, nil
}

// revoked returns ErrExpired if err says that the directory is gone, and has the next
// attempt create another.
func (s *Store) revoked(d *staging, err error) error {
	if !isNotExist(err) || s.vanished() {
		return err
	}
	s.current.CompareAndSwap(d, nil)
	return storage.ErrExpired
}

// gone begins the names of directories that a collection has renamed away.
const gone = "gone-"

// revokeStaging removes the staging directories of all processes. A rename out of one
// in progress fails once its directory is removed, so nothing may be left.
func (s *Store) revokeStaging() error {
	entries, err := os.ReadDir(s.staging)
	if err != nil {
		return ignoreNotExist(err)
	}
	for _, e := range entries {
		name := s.staging + "/" + e.Name()
		if !strings.HasPrefix(e.Name(), gone) {
			mine := s.staging + "/" + gone + rand.Text()
			if err := rename(name, mine); isNotExist(err) { // its process has ended
				continue
			} else if err != nil {
				return err
			}
			name = mine
		}
		for try := 0; ; try++ { // a process may be creating a file in it
			if err = os.RemoveAll(name); err == nil || try == retries {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
