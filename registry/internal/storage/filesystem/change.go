package filesystem

import (
	"bytes"
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// bigFile is the size from which on a file is flushed apart from small ones.
const bigFile = 1 << 20

// change is a storage.Change on its way. prepare, write, flushed, publish and
// cleanUp follow each other.
type change struct {
	storage.Change
	name string  // of the file, absolute
	like string  // absolute: a durable file with the same content, or ""
	twin *change // before it in its stage, with the same content, or nil
	late bool    // like was written or renewed more than a tick ago

	temp string // the file to be renamed to name
	fd   int    // of temp while it needs a flush, or -1
	size int64  // of temp

	dirs []string // to be flushed before it is durable
}

// isPut says whether it puts bytes in place.
func (c *change) isPut() bool { return !c.Delete && !c.Renew }

// pair finds the changes of a stage that are like one before them.
func pair(stage []change) {
	for i := range stage {
		c := &stage[i]
		if c.Like == "" {
			continue
		}
		for j := range i {
			if before := &stage[j]; before.Key == c.Like && before.isPut() && before.twin == nil && before.Upload == nil && bytes.Equal(before.Content, c.Content) {
				c.twin = before
			}
		}
	}
}

// prepare checks the change.
func (c *change) prepare(s *Store) (err error) {
	if c.name, err = s.abs("write", c.Key); err != nil {
		return err
	}
	if c.Upload == nil {
		return nil
	}
	if u, ok := c.Upload.(*upload); !ok || u.s != s {
		return errors.New("filesystem: the upload is of another store")
	}
	return nil
}

// write puts the bytes of a put into a file.
func (c *change) write(s *Store) error {
	if !c.isPut() {
		return nil
	}
	if c.twin != nil {
		c.like = c.twin.name // flushed before either of them is published
		return nil
	}
	if c.Upload == nil {
		if c.like, c.late = s.sharable(c.Like, c.Content); c.like != "" || c.Ephemeral {
			return nil
		}
	}
	return c.writeFile(s)
}

func (c *change) writeFile(s *Store) (err error) {
	c.size = int64(len(c.Content))
	if u, ok := c.Upload.(*upload); ok {
		if c.fd, c.size, err = u.seal(); err != nil {
			return err
		}
		c.temp = u.name
	} else if c.temp, c.fd, err = s.writeTemp(c.Content); err != nil {
		return s.writeFault("write", c.Key, err)
	}
	if c.Ephemeral {
		c.closeFile()
	}
	return nil
}

// writeNow writes and flushes the file after the others of its commit.
func (c *change) writeNow(s *Store) error {
	if err := c.writeFile(s); err != nil {
		return err
	}
	return c.flushed(s, syncFile(c.fd))
}

// flushed takes the result of a flush of its file. One that could not be flushed is
// deleted: its bytes are in doubt for ever, whatever the next flush says.
func (c *change) flushed(s *Store, err error) error {
	if err != nil {
		drop(c.temp)
		c.temp = ""
		return s.writeFault("flush", c.Key, err)
	}
	c.closeFile()
	return nil
}

// closeFile forgets the file; that of an upload is closed with it.
func (c *change) closeFile() {
	if c.fd >= 0 && c.Upload == nil {
		closeFD(c.fd)
	}
	c.fd = -1
}

// publish makes the change visible, if its condition holds, and notes what has to
// be flushed for it. The caller has excluded others.
func (c *change) publish(s *Store) error {
	if err := c.permitted(s); err != nil {
		return err
	}
	if c.Delete {
		return c.remove(s)
	}
	if c.Renew {
		return c.renew(s)
	}
	if err := c.put(s); err != nil {
		return s.writeFault("write", c.Key, err)
	}
	if !c.Ephemeral {
		c.dirs = s.durable.unflushed(c.name)
	}
	return nil
}

// permitted checks the condition.
func (c *change) permitted(s *Store) error {
	want := c.If.Version()
	if want == "" && !c.If.Absent() {
		return nil
	}
	var st unix.Stat_t
	err := s.look(c.name, &st)
	switch {
	case err != nil && (!isNotExist(err) || s.vanished()):
		return s.readFault("look at", c.Key, err)
	case c.If.Absent() && err == nil, want != "" && (err != nil || token(&st) != want):
		return &fault{"write", c.Key, storage.ErrConflict, nil}
	}
	return nil
}

// remove deletes the file and the directories in which nothing is left.
func (c *change) remove(s *Store) error {
	if c.Ephemeral && s.keepSpare(c.name) {
		return nil
	}
	err := unlink(c.name)
	if errors.Is(err, unix.EISDIR) || isNotExist(err) && !s.vanished() {
		err = nil // absent
	}
	if err != nil {
		return s.writeFault("delete", c.Key, err)
	}
	if c.Ephemeral {
		s.prune(dirOf(c.name), 1)
		return nil
	}
	c.dirs = []string{s.prune(dirOf(c.name), math.MaxInt)}
	return nil
}

// renew sets the times of the file and of its directory: see share.
func (c *change) renew(s *Store) error {
	var st unix.Stat_t
	err := s.look(c.name, &st)
	if err == nil {
		err = touch(c.name)
	}
	if err == nil {
		err = touch(dirOf(c.name))
	}
	return s.renewFault(c.Key, err)
}

// rewrite renews a file by a new one in its place. The caller has excluded others.
func (c *change) rewrite(s *Store) error {
	var st unix.Stat_t
	err := s.look(c.name, &st) // it may be deleted since
	if err == nil {
		err = c.writeNow(s)
	}
	if err == nil {
		err = c.put(s)
	}
	return s.renewFault(c.Key, err)
}

func (s *Store) renewFault(key string, err error) error {
	switch {
	case err == nil:
		return nil
	case isNotExist(err):
		return s.readFault("renew", key, err)
	}
	return s.writeFault("renew", key, err)
}

// makeDir makes the directory of a put that has no condition, if it is not known: most are
// new. That needs no lock, which others may wait for.
func (c *change) makeDir(s *Store) error {
	if !c.isPut() || c.Ephemeral || c.If != (storage.Condition{}) {
		return nil
	}
	dir := dirOf(c.name)
	if _, known := s.durable.has(dir); known {
		return nil
	}
	if err := s.mkdirAll(dir); err != nil && err != unix.ENOENT { //nolint:errorlint // a bare errno; put tries again
		return s.writeFault("write", c.Key, err)
	}
	return nil
}

// put renames the file into place, or links to the one with the same content.
func (c *change) put(s *Store) error {
	if c.Ephemeral && c.Upload == nil && c.like == "" {
		if s.useSpare(c.name, c.Content) {
			return nil
		}
		if err := c.writeFile(s); err != nil {
			return err
		}
	} else {
		s.spares.contentOf(c.name) // is another one now
	}
	if c.like != "" {
		if s.share(c.like, c.name, c.late) {
			return nil
		}
		c.like, c.twin = "", nil
		if err := c.writeNow(s); err != nil {
			return err
		}
	}
	err := s.inDir(c.name, func() error { return rename(c.temp, c.name) })
	if errors.Is(err, unix.EISDIR) && rmdir(c.name) == nil { // a directory in which nothing is left
		err = rename(c.temp, c.name)
	}
	if errors.Is(err, unix.EXDEV) && c.Upload == nil {
		return s.inDir(c.name, func() error { return s.writeBeside(c.name, c.Content) })
	}
	if err == nil {
		c.temp = ""
	}
	return err
}

// cleanUp closes what is open and deletes a file that was not published. The
// bytes of an upload stay.
func (c *change) cleanUp() {
	c.closeFile()
	if u, ok := c.Upload.(*upload); ok {
		u.release()
		return
	}
	if c.Upload == nil && c.temp != "" {
		drop(c.temp)
	}
}
