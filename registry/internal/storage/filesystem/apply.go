package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// change is a storage.Change of a commit.
type change struct {
	storage.Change
	name   string  // of the file, absolute
	upload *upload // Change.Upload once it is sealed
	temp   string  // the file to be renamed to name, "" until it is written
	fd     int     // the descriptor of temp until it is flushed, otherwise -1
	made   bool    // the directory of name was created for it
	done   bool    // it is visible
	dir    string  // to be flushed once it is visible, or ""
}

func (c *change) isPut() bool { return !c.Delete && !c.Renew }

// size is the number of bytes to be put.
func (c *change) size() int64 {
	if c.upload != nil {
		return c.upload.size
	}
	return int64(len(c.Content))
}

// prepare checks the change, and seals its upload.
func (c *change) prepare(s *Store) (err error) {
	if err = c.Check(); err != nil {
		return err
	}
	if c.name = s.root + c.Key; c.Upload == nil {
		return nil
	}
	u, ok := c.Upload.(*upload)
	if !ok || u.s != s {
		return errors.New("filesystem: the upload is of another store")
	}
	if c.fd, err = u.seal(); err == nil {
		c.upload, c.temp = u, u.name
	}
	return err
}

// write writes the content into a file, which is flushed later unless it is ephemeral.
func (c *change) write(k *commit) error {
	d, err := k.ensureAttempt()
	if err == nil {
		c.temp, c.fd, err = k.s.write(d, c.name, c.Content)
	}
	if err != nil {
		return k.s.writeFault("write", c.Key, err)
	}
	if c.Ephemeral {
		c.closeFile()
	}
	return nil
}

// makeDir creates the directory of the file, which mostly is new.
func (c *change) makeDir(s *Store) error {
	err := s.mkdir(dirOf(c.name))
	if errors.Is(err, unix.ENOENT) {
		err = s.mkdirAll(dirOf(c.name))
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) { // put tries again
		return nil
	}
	c.made = err == nil
	return err
}

// flushed closes the file after its flush. If that has failed the file is deleted: the next
// flush of its lost bytes would succeed.
func (c *change) flushed(s *Store, err error) error {
	c.closeFile()
	if err == nil {
		return nil
	}
	_ = unlink(c.temp)
	c.temp = ""
	if c.upload != nil {
		c.upload.end()
	}
	return s.writeFault("flush", c.Key, err)
}

// closeFile forgets the file. The upload closes its own.
func (c *change) closeFile() {
	if c.fd >= 0 && c.upload == nil {
		closeFD(c.fd)
	}
	c.fd = -1
}

// publish makes the change visible if its condition holds.
func (c *change) publish(k *commit) error {
	switch {
	case c.Delete:
		return c.remove(k.s)
	case c.Renew:
		return c.renew(k)
	}
	if err := c.put(k); err != nil {
		return k.s.writeFault("write", c.Key, err)
	}
	if !c.Ephemeral {
		c.dir = dirOf(c.name)
	}
	if c.upload != nil {
		c.upload.end()
		k.s.prune(dirOf(c.upload.name), 1)
	}
	return nil
}

// put renames the file into place. Unless it is certain that nothing is there, it takes the key's lock first.
func (c *change) put(k *commit) error {
	if err := c.makeDir(k.s); err != nil {
		return err
	}
	if c.Ephemeral && c.upload == nil && c.If == (storage.Condition{}) {
		return c.place(k, rename)
	}
	if c.upload != nil { // its bytes are as new as this attempt
		if err := touch(c.temp); err != nil {
			return c.missing(k, err)
		}
	}
	if c.If.Version() == "" {
		err := c.place(k, renameNew)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		if c.If.Absent() && k.s.statFile(c.name, new(unix.Stat_t)) == nil {
			return c.conflict()
		}
	}
	unlock, err := k.s.lockKey(c.Key)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.permitted(k.s); err != nil {
		return err
	}
	if err := touch(c.temp); err != nil {
		return c.missing(k, err)
	}
	err = c.place(k, rename)
	if errors.Is(err, unix.EISDIR) && rmdir(c.name) == nil { // an empty directory is no object
		err = c.place(k, rename)
	}
	return err
}

// place renames the file to its name, and creates the directory if need be.
func (c *change) place(k *commit, rename func(from, to string) error) error {
	err := k.s.inDir(c.name, func() error {
		err := rename(c.temp, c.name)
		if errors.Is(err, unix.ENOENT) && stat(c.temp, new(unix.Stat_t)) != nil {
			return c.missing(k, err)
		}
		return err
	})
	if errors.Is(err, unix.EXDEV) {
		return &fault{"write", c.Key, nil, errSplit}
	}
	if err == nil {
		c.temp = ""
	}
	return err
}

var errSplit = errors.New("a part of the tree is on another file system: mount the volume at the storage root")

// missing is the error of a file that isn't there any more.
func (c *change) missing(k *commit, err error) error {
	switch {
	case !isNotExist(err):
		return err
	case c.upload != nil:
		return k.s.readFault("write", c.Key, unix.ENOTDIR) // it was deleted
	}
	d, err := k.ensureAttempt()
	if err == nil {
		err = k.s.revoked(d, unix.ENOTDIR)
	}
	return err
}

// permitted checks the condition. The caller holds the key's lock.
func (c *change) permitted(s *Store) error {
	want := c.If.Version()
	if want == "" && !c.If.Absent() {
		return nil
	}
	var st unix.Stat_t
	err := s.statFile(c.name, &st)
	switch {
	case err != nil && (!isNotExist(err) || s.vanished()):
		return s.readFault("stat", c.Key, err)
	case c.If.Absent() && err == nil, want != "" && (err != nil || token(&st) != want):
		return c.conflict()
	}
	return nil
}

func (c *change) conflict() error { return &fault{"write", c.Key, storage.ErrConflict, nil} }

// remove deletes the file and the directories that it leaves empty.
func (c *change) remove(s *Store) error {
	if c.Ephemeral {
		if err := s.unlinkKey(c.Key, c.name); err != nil {
			return err
		}
		s.prune(dirOf(c.name), 1)
		return nil
	}
	unlock, err := s.lockKey(c.Key)
	if err != nil {
		return err
	}
	if err = c.permitted(s); err == nil && !c.If.Absent() { // otherwise only directories are left
		err = s.unlinkKey(c.Key, c.name)
	}
	unlock()
	if err != nil {
		return err
	}
	c.dir = s.prune(dirOf(c.name), math.MaxInt)
	return nil
}

// unlinkKey removes the file of a key, which may be absent.
func (s *Store) unlinkKey(key, name string) error {
	s.states.take(key)
	err := unlink(name)
	if err == nil || errors.Is(err, unix.EISDIR) || isNotExist(err) && !s.vanished() {
		return nil
	}
	return s.writeFault("delete", key, err)
}

// renew sets the date of the file that has the name now.
func (c *change) renew(k *commit) error {
	unlock, err := k.s.lockKey(c.Key)
	if err != nil {
		return err
	}
	defer unlock()
	if err = c.permitted(k.s); err != nil {
		return err
	}
	if err = k.s.statFile(c.name, new(unix.Stat_t)); err == nil {
		err = touch(c.name)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) { // the file has another owner
		err = c.replaceByCopy(k)
	}
	if err != nil && isNotExist(err) {
		return k.s.readFault("renew", c.Key, err)
	}
	return k.s.writeFault("renew", c.Key, err)
}

// replaceByCopy puts a copy in the place of a file. The caller holds the key's lock.
func (c *change) replaceByCopy(k *commit) error {
	from, err := open(c.name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	src := os.NewFile(uintptr(from), c.Key)
	defer src.Close()
	d, err := k.ensureAttempt()
	if err != nil {
		return err
	}
	temp, to, err := k.s.write(d, c.name, nil)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(to), c.Key)
	defer dst.Close()
	if _, err = io.Copy(dst, src); err == nil {
		err = syncFile(to)
	}
	if err == nil {
		err = rename(temp, c.name)
	}
	if err != nil {
		_ = unlink(temp)
		return k.s.revoked(d, err)
	}
	c.dir = dirOf(c.name)
	return nil
}

// cleanUp removes what a change that failed has left. An upload stays with its holder.
func (c *change) cleanUp(s *Store) {
	c.closeFile()
	if c.upload != nil {
		c.upload.unseal()
	} else if c.temp != "" {
		_ = unlink(c.temp)
	}
	if c.made && !c.done {
		s.prune(dirOf(c.name), math.MaxInt)
	}
}

// commit is one call of Apply.
type commit struct {
	s       *Store
	attempt *storage.Attempt
	own     bool // the attempt is the commit's own, and may be replaced
	stages  [][]change
}

// maxRestarts is the number of times that a commit begins another attempt of its own. Each collection
// costs it one.
const maxRestarts = 4

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &commit{s: s, attempt: a, own: a == nil, stages: make([][]change, len(stages))}
	for i, stage := range stages {
		c.stages[i] = make([]change, len(stage))
		for j := range stage {
			c.stages[i][j] = change{Change: stage[j], fd: -1}
		}
	}
	defer c.cleanUp()
	return c.run()
}

func (c *commit) run() error {
	for _, stage := range c.stages {
		for i := range stage {
			if err := stage[i].prepare(c.s); err != nil {
				return err
			}
		}
	}
	for i := range c.stages {
		err := c.stage(i)
		for try := 0; c.own && errors.Is(err, storage.ErrExpired) && try < maxRestarts; try++ {
			if err = c.restart(i); err == nil {
				err = c.stage(i)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stage makes the changes of stage i that aren't made yet, and makes all of them durable.
func (c *commit) stage(i int) error {
	if !c.own {
		if err := c.attempt.Err(); err != nil {
			return err
		}
	}
	if err := c.writeFiles(c.stages[i:]); err != nil {
		return err
	}
	failures := c.s.dirs.failures.Load()
	var dirs []string
	for j := range c.stages[i] {
		ch := &c.stages[i][j]
		if !ch.done {
			if err := ch.publish(c); err != nil {
				return err
			}
			ch.done = true
		}
		if ch.dir != "" && !slices.Contains(dirs, ch.dir) {
			dirs = append(dirs, ch.dir)
		}
	}
	if err := c.s.flushDirs(dirs); err != nil {
		return c.s.writeFault("flush", c.stages[i][0].Key, err)
	}
	// A failed flush of another commit may also have lost entries of this one.
	if len(dirs) > 0 && c.s.dirs.failures.Load() != failures {
		return &fault{"flush", c.stages[i][0].Key, storage.ErrUnavailable, errFlush}
	}
	return nil
}

var errFlush = errors.New("a directory could not be flushed")

// writeFiles writes the files of puts, and flushes them and the uploads. A large upload is
// flushed first, because that may take longer than an attempt.
func (c *commit) writeFiles(stages [][]change) error {
	if err := c.flushFiles(stages, window); err != nil {
		return err
	}
	for _, stage := range stages {
		for i := range stage {
			if ch := &stage[i]; ch.isPut() && ch.temp == "" && !ch.done {
				if err := ch.write(c); err != nil {
					return err
				}
			}
		}
	}
	return c.flushFiles(stages, 0)
}

// flushFiles flushes the open files of least bytes or more. All are on their way to the disk
// before the first is waited for, so a file system with a journal commits it once.
func (c *commit) flushFiles(stages [][]change, least int64) error {
	var files []*change
	for _, stage := range stages {
		for i := range stage {
			if stage[i].fd >= 0 && stage[i].size() >= least {
				files = append(files, &stage[i])
			}
		}
	}
	errs := make([]error, len(files))
	for i, f := range files {
		if len(files) > 1 {
			errs[i] = startWriteBack(f.fd, 0, 0, false)
		}
	}
	for i, f := range files {
		if errs[i] == nil {
			errs[i] = syncFile(f.fd)
		}
		errs[i] = f.flushed(c.s, errs[i])
	}
	return errors.Join(errs...)
}

// ensureAttempt returns the directory for new files. Files of a commit without an attempt are
// written in one that begins now.
func (c *commit) ensureAttempt() (*staging, error) {
	if c.attempt == nil {
		c.attempt = c.s.Begin()
	}
	d, ok := c.attempt.Token().(*staging)
	if !ok {
		return nil, errors.New("filesystem: the attempt is of another store")
	}
	return d, nil
}

// restart begins another attempt after a collection has ended the one before, and renews
// what the commit has put already.
func (c *commit) restart(upTo int) error {
	c.attempt = c.s.Begin()
	for i, stage := range c.stages {
		for j := range stage {
			ch := &stage[j]
			if !ch.done && ch.upload == nil {
				ch.closeFile()
				ch.temp = ""
			}
			if i > upTo || !ch.done || !ch.isPut() || ch.Ephemeral {
				continue
			}
			if err := ch.renew(c); errors.Is(err, storage.ErrNotExist) {
				return fmt.Errorf("%w: %s was collected meanwhile", storage.ErrExpired, ch.Key)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *commit) cleanUp() {
	for _, stage := range c.stages {
		for i := range stage {
			stage[i].cleanUp(c.s)
		}
	}
}
