package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"

	"slipway/shared/durable"
)

var errVanished = errors.New("the root directory has vanished; a lost mount?")

// rootID tells the root directory from another in its place.
type rootID struct {
	dev, ino uint64
	uid, gid uint32
}

func (a rootID) same(b rootID) bool { return a.dev == b.dev && a.ino == b.ino }

// rootDir is the root as a path of its own.
func (s *Store) rootDir() string {
	if s.root == "" {
		return "/"
	}
	return s.root
}

// vanished says whether the root is not the one that was seen first. A root that
// lost its mount is an empty directory.
func (s *Store) vanished() bool {
	known := s.identity.Load()
	var st unix.Stat_t
	if known != nil && stat(s.staging, &st) == nil {
		return false
	}
	err := stat(s.rootDir(), &st)
	id := rootID{device(&st), st.Ino, st.Uid, st.Gid}
	if known != nil {
		return err != nil || !id.same(*known)
	}
	if err == nil {
		s.identity.CompareAndSwap(nil, &id)
	}
	return err != nil && !isNotExist(err)
}

// makeRoot creates the root, unless it was there once: a lost mount leaves an empty
// directory that can very well be written to, and must not be.
func (s *Store) makeRoot() error {
	if s.vanished() {
		return unix.ENOENT
	}
	if s.identity.Load() != nil {
		return nil
	}
	if err := durable.MakeDir(s.rootDir(), 0o777); err != nil {
		return err
	}
	s.vanished()
	return nil
}

// own gives a new file or directory to the owner of the root: an administrator's
// import must not lock out the server. Where that is refused it stays as it is.
func (s *Store) own(chown func(uid, gid int) error) {
	if id := s.identity.Load(); s.asRoot && id != nil && (id.uid != 0 || id.gid != 0) {
		_ = chown(int(id.uid), int(id.gid))
	}
}

// create opens a file, which may be new.
func (s *Store) create(path string, flags int) (fd int, err error) {
	if fd, err = open(path, flags|unix.O_CREAT); err == nil {
		s.own(func(uid, gid int) error { return unix.Fchown(fd, uid, gid) })
	}
	return fd, err
}

// mkdir creates a directory. What lies directly in the root creates the root as
// well.
func (s *Store) mkdir(dir string) error {
	if dirOf(dir) == s.rootDir() {
		if err := s.makeRoot(); err != nil {
			return err
		}
	}
	err := mkdir(dir)
	if err == nil {
		s.own(func(uid, gid int) error { return unix.Lchown(dir, uid, gid) })
	}
	return err
}
