package filesystem

import (
	"errors"
	"math"
	"path"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// change is a storage.Change on its way. prepare, write, publish and cleanUp follow each
// other. While fd is a file it has to be flushed before it is published (again).
type change struct {
	storage.Change
	name   string // of the file, absolute
	source string // absolute: the file of somebody else that is shared, once it was read; or ""

	temp string // the file to be renamed to name
	fd   int    // a file that needs a flush, or -1
	size int64  // of an upload
	dir  string // to be flushed before it is durable, or ""
}

// isPut says whether it puts bytes in place.
func (c *change) isPut() bool { return !c.Delete && !c.Renew }

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

// write puts the bytes of a put into a file, unless it may do without.
func (c *change) write(s *Store) (err error) {
	if !c.isPut() || c.Upload == nil && (c.Like != "" || c.Ephemeral) {
		return nil
	}
	u, ok := c.Upload.(*upload)
	if !ok {
		return c.writeFile(s)
	}
	c.temp = u.name
	c.fd, c.size, err = u.seal()
	return err
}

// writeFile writes the content into a file that needs a flush.
func (c *change) writeFile(s *Store) (err error) {
	if c.temp, c.fd, err = s.writeTemp(c.Content); err != nil {
		return s.writeFault("write", c.Key, err)
	}
	if c.Ephemeral && !c.Renew {
		c.closeFile()
	}
	return nil
}

// flushed takes the result of a flush of its file. One that could not be flushed is
// deleted: its bytes are in doubt for ever, whatever the next flush says.
func (c *change) flushed(s *Store, err error) error {
	c.closeFile()
	if err == nil {
		return nil
	}
	if c.temp == "" { // it is the source
		c.Like, c.source = "", ""
		return nil
	}
	drop(c.temp)
	c.temp = ""
	return s.writeFault("flush", c.Key, err)
}

// closeFile forgets the file; that of an upload is closed with it.
func (c *change) closeFile() {
	if c.fd >= 0 && c.Upload == nil {
		closeFD(c.fd)
	}
	c.fd = -1
}

// publish makes the change visible, if its condition holds, and notes the directory that
// has to be flushed for it; or it stops at a file that has to be flushed before. errLocked
// if another process is at it. before are the changes of its stage that are visible.
func (c *change) publish(s *Store, before []change, lock *keyLock) error {
	if c.If != (storage.Condition{}) || c.Delete && !c.Ephemeral || c.Renew && c.temp != "" {
		if err := s.exclude(c.Key, lock); err != nil {
			return err
		}
		if err := c.permitted(s); err != nil {
			return err
		}
	}
	switch {
	case c.Delete:
		return c.remove(s)
	case c.Renew:
		return c.renew(s)
	}
	err := c.put(s, before, lock)
	if !c.Ephemeral {
		c.dir = dirOf(c.name)
	}
	return s.writeFault("write", c.Key, err)
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
		return c.conflict()
	}
	return nil
}

func (c *change) conflict() error { return &fault{"write", c.Key, storage.ErrConflict, nil} }

// remove deletes the file and the directories in which nothing is left.
func (c *change) remove(s *Store) error {
	if c.Ephemeral && s.keepSpare(c.name) {
		return nil
	}
	var err error
	if !c.If.Absent() { // else only the directories are left; a file that comes now stays
		err = unlink(c.name)
	}
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
	c.dir = s.prune(dirOf(c.name), math.MaxInt)
	return nil
}

// renew sets the times of the file and of its directory: see share. Where only its owner
// may, it is written again and replaced.
func (c *change) renew(s *Store) error {
	var st unix.Stat_t
	err := s.look(c.name, &st)
	switch {
	case err != nil:
	case c.temp != "":
		err = c.replace(s)
	default:
		if err = touch(c.name); err == nil {
			err = touch(dirOf(c.name))
		}
		if isDenied(err) && c.Content != nil {
			err = c.writeFile(s)
		}
	}
	if isNotExist(err) {
		return s.readFault("renew", c.Key, err)
	}
	return s.writeFault("renew", c.Key, err)
}

// put links to the file with the same content, or renames its own into place.
func (c *change) put(s *Store, before []change, lock *keyLock) error {
	if c.Ephemeral && c.Upload == nil && c.Like == "" {
		if s.useSpare(c.name, c.Content) {
			return nil
		}
	} else {
		s.spares.contentOf(c.name) // is another one now
	}
	if _, known := s.durable.has(dirOf(c.name)); !known && !c.Ephemeral { // most are new
		if err := s.mkdirAll(dirOf(c.name)); err != nil && err != unix.ENOENT { //nolint:errorlint // a bare errno; inDir tries again
			return err
		}
	}
	if c.temp == "" && c.Like != "" && (c.share(s, before) || c.fd >= 0) {
		return nil
	}
	if c.temp == "" {
		if err := c.writeFile(s); err != nil || c.fd >= 0 {
			return err
		}
	}
	if !c.Ephemeral && c.If.Version() == "" {
		err := s.inDir(c.name, func() error { return renameNew(c.temp, c.name) })
		switch {
		case err == nil:
			c.temp = ""
			return nil
		case c.If.Absent() && errors.Is(err, unix.EEXIST) && s.look(c.name, new(unix.Stat_t)) == nil:
			return c.conflict()
		case errors.Is(err, unix.EXDEV):
			return c.writeBeside(s, err)
		case !errors.Is(err, unix.EEXIST) && !unsupported(err):
			return err
		}
	}
	if !c.Ephemeral {
		if err := s.exclude(c.Key, lock); err != nil {
			return err
		}
	}
	return c.replace(s)
}

// replace renames the file into place, whatever is there.
func (c *change) replace(s *Store) error {
	err := s.inDir(c.name, func() error { return rename(c.temp, c.name) })
	if errors.Is(err, unix.EISDIR) && rmdir(c.name) == nil { // a directory in which nothing is left
		err = rename(c.temp, c.name)
	}
	if errors.Is(err, unix.EXDEV) {
		return c.writeBeside(s, err)
	}
	if err == nil {
		c.temp = ""
	}
	return err
}

// writeBeside writes the file in the directory where it belongs, for trees that lie on
// another file system than the root: then nothing can be renamed out of the staging
// directory, which err says. Distribution 3 names such files alike.
func (c *change) writeBeside(s *Store, err error) error {
	if c.Upload != nil || dirOf(c.temp) == dirOf(c.name) {
		return err
	}
	drop(c.temp)
	c.temp = c.name + "." + path.Base(s.tempName())
	err = s.inDir(c.name, func() (err error) {
		c.fd, err = s.writeNew(c.temp, c.Content)
		return err
	})
	if err != nil || !c.Ephemeral {
		return err
	}
	c.closeFile()
	return c.replace(s)
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
