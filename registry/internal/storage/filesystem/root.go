package filesystem

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
	"slipway/shared/durabledir"
)

// errVanished is temporary: the mount may come back.
var errVanished = fmt.Errorf("%w: the root directory has vanished; a lost mount?", storage.ErrTemporary)

// rootID tells the root directory from another in its place.
type rootID struct {
	dev, ino uint64
	uid, gid uint32
	local    bool // this machine's kernel stamps its files and sees all its locks
}

// rootDir is the root as a path of its own.
func (s *Store) rootDir() string {
	if s.root == "" {
		return "/"
	}
	return s.root
}

// vanished reports whether the root isn't the directory that was seen first: the directory
// below a lost mount is empty, and must be neither believed nor written to.
func (s *Store) vanished() bool {
	var st unix.Stat_t
	err := stat(s.rootDir(), &st)
	known := s.identity.Load()
	if err != nil {
		return known != nil || !isNotExist(err)
	}
	if known != nil && known.dev == device(&st) && known.ino == st.Ino {
		return false
	}
	// A volume that is mounted again may have another device number.
	if known != nil && stat(s.staging, new(unix.Stat_t)) != nil {
		return true
	}
	s.identity.CompareAndSwap(known, &rootID{device(&st), st.Ino, st.Uid, st.Gid, isLocal(s.rootDir())})
	return false
}

// local reports whether the root is on this machine.
func (s *Store) local() bool {
	id := s.identity.Load()
	return id != nil && id.local
}

// makeRoot creates the root unless it existed before.
func (s *Store) makeRoot() error {
	if s.vanished() {
		return unix.ENOENT
	}
	if s.identity.Load() != nil {
		return nil
	}
	if err := durabledir.Make(s.rootDir(), 0o777); err != nil {
		return err
	}
	s.vanished()
	return nil
}

// own gives a new file or directory to the owner of the root, so that what an administrator
// imports stays writable for the server.
func (s *Store) own(chown func(uid, gid int) error) {
	if id := s.identity.Load(); s.asRoot && id != nil && (id.uid != 0 || id.gid != 0) {
		_ = chown(int(id.uid), int(id.gid))
	}
}

// modes are those of a new file and of a new directory at name, before the umask.
func (s *Store) modes(name string) (file, dir uint32) {
	for _, private := range s.private {
		if rest, below := strings.CutPrefix(name, private); below && (rest == "" || rest[0] == '/') {
			return 0o600, 0o700
		}
	}
	return 0o666, 0o777
}

// create opens a file that will be renamed to name, and creates it if need be.
func (s *Store) create(path, name string, flags int) (fd int, err error) {
	mode, _ := s.modes(name)
	if fd, err = openMode(path, flags|unix.O_CREAT, mode); err == nil {
		s.own(func(uid, gid int) error { return unix.Fchown(fd, uid, gid) })
	}
	return fd, err
}

// mkdir creates a directory, and the root if the directory is directly in it.
func (s *Store) mkdir(dir string) error {
	if dirOf(dir) == s.rootDir() {
		if err := s.makeRoot(); err != nil {
			return err
		}
	}
	_, mode := s.modes(dir)
	err := retry(func() error { return unix.Mkdir(dir, mode) })
	if err == nil {
		s.own(func(uid, gid int) error { return unix.Lchown(dir, uid, gid) })
	}
	return err
}

// Directories are created when a file needs them and removed with their last file, so a
// writer may find one missing at any moment. retries bounds how often it creates it again.
const retries = 16

// mkdirAll creates a directory and those above it, up to the root.
func (s *Store) mkdirAll(dir string) error {
	for range retries {
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

// inDir calls do, which needs the directory of name, and creates the directory whenever do
// finds it missing.
func (s *Store) inDir(name string, do func() error) error {
	for i := range retries {
		err := do()
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if i == retries/4 { // deletions in this process pause
			s.removing.Lock()
			defer s.removing.Unlock()
		}
		if err := s.mkdirAll(dirOf(name)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}

// prune removes dir and those above it while they are empty, at most levels of them. It
// returns the first that remains.
func (s *Store) prune(dir string, levels int) string {
	s.removing.RLock()
	defer s.removing.RUnlock()
	for i := 0; i < levels && dir != s.rootDir(); i++ {
		err := rmdir(dir)
		// An empty _uploads doesn't keep a repository.
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

// dirOf returns the directory of an absolute path.
func dirOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 1)]
}

// abs returns the file of a key.
func (s *Store) abs(op, key string) (string, error) {
	if !storage.ValidKey(key) {
		return "", &fault{op: op, key: key, kind: storage.ErrInvalidKey}
	}
	return s.root + key, nil
}
