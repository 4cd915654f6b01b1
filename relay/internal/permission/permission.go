// Package permission says why a file cannot be used and what mends it.
package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Explain makes a sentence of an error about path that comes from missing
// rights: whose it is, who we are and the command that helps. Any other error,
// and nil, it returns as it is. The error stays in the chain.
func Explain(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system: mount a volume there that can be written to (%w)", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s (%w)", sentence(path, os.Getuid(), os.Getgid()), err)
	}
	return err
}

// sentence is about the nearest file that is there, for a process with these ids.
func sentence(path string, uid, gid int) string {
	at, info := nearest(path)
	stat, ok := info.(*syscall.Stat_t)
	if !ok || uid == 0 {
		return fmt.Sprintf("%s may not be used by this process, which is uid %d: change its owner or mode", path, uid)
	}
	mode := fs.FileMode(stat.Mode).Perm()
	return fmt.Sprintf("%s belongs to uid %d, gid %d with mode %#o, and this process is uid %d, gid %d: run `chown -R %d:%d %s` as root where it is mounted from",
		at, stat.Uid, stat.Gid, mode, uid, gid, uid, gid, at)
}

// nearest is the path, or the closest folder above it that is there and may be
// looked at.
func nearest(path string) (string, any) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, nil
	}
	for {
		if info, err := os.Stat(path); err == nil {
			return path, info.Sys()
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path, nil
		}
		path = parent
	}
}
