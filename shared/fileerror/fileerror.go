// Package fileerror explains why a file cannot be used.
package fileerror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Explain returns an error about the file or folder at path as a sentence, if it is missing, may not be used, or is on a
// read-only file system: its owner, or that of the folder in which it can't be made, the current user, and the command that
// helps. It returns any other error, and nil, unchanged. The result wraps err.
func Explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &explained{path + " does not exist: make or mount it, or name another", err}
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system: mount a volume there that can be written to (%w)", path, err)
	case errors.Is(err, fs.ErrPermission):
		there := nearest(path)
		if folder := filepath.Dir(path); there != path && there != folder {
			return cannotMake(folder, there, err)
		}
		return &explained{notAllowed(there), err}
	}
	return err
}

// explained keeps the cause within reach of errors.Is.
type explained struct {
	text string
	err  error
}

func (u *explained) Error() string { return u.text }

func (u *explained) Unwrap() error { return u.err }

// notAllowed names the owner of the file and how to change it or, if already a
// directory above may not be entered, that one.
func notAllowed(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	asked := path
	info, err := os.Lstat(path)
	for errors.Is(err, fs.ErrPermission) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		info, err = os.Lstat(path)
	}
	if err != nil {
		return path + " may not be read"
	}
	uid, gid := os.Geteuid(), os.Getegid()
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprintf("%s may not be used by uid %d, which this runs as", path, uid)
	}
	if path != asked {
		return fmt.Sprintf("%s is out of reach: %s belongs to uid %d (mode %04o), and this runs as uid %d, which may not enter it", asked, path, owner.Uid, info.Mode().Perm(), uid)
	}
	if int(owner.Uid) == uid {
		return ownPermission(path, info)
	}
	recursive := ""
	if info.IsDir() {
		recursive = "-R "
	}
	return fmt.Sprintf("%s belongs to uid %d (mode %04o), and this runs as uid %d, which may not use it: chown %s%d:%d %s",
		path, owner.Uid, info.Mode().Perm(), uid, recursive, uid, gid, path)
}

// ownPermission is for a file that belongs to the current user: its mode must change.
func ownPermission(path string, info fs.FileInfo) string {
	missing := ""
	for _, right := range []struct {
		word string
		bit  fs.FileMode
		dirs bool // counts for directories only
	}{{"r", 0o400, false}, {"w", 0o200, false}, {"x", 0o100, true}} {
		if info.Mode().Perm()&right.bit == 0 && (info.IsDir() || !right.dirs) {
			missing += right.word
		}
	}
	if missing == "" {
		return fmt.Sprintf("%s may not be used, although its owner and mode (%04o) allow it: look for access control lists, SELinux or AppArmor, or a read-only mount", path, info.Mode().Perm())
	}
	return fmt.Sprintf("%s has mode %04o, which keeps its owner, uid %d, from using it: chmod u+%s %s", path, info.Mode().Perm(), os.Geteuid(), missing, path)
}

// cannotMake returns the command that creates a folder which the current user may not create. It leaves the folder above alone.
func cannotMake(folder, above string, err error) error {
	uid, gid := os.Geteuid(), os.Getegid()
	return fmt.Errorf("%s does not exist, and uid %d, which this runs as, cannot make it in %s: mkdir -p %s && chown %d:%d %s, or mount a volume there (%w)",
		folder, uid, above, folder, uid, gid, folder, err)
}

// nearest returns path or the closest existing folder above it.
func nearest(path string) string {
	for {
		_, err := os.Lstat(path)
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return path
		}
		path = parent
	}
}
