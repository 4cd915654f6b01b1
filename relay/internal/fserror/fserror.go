// Package fserror says why a file or folder cannot be used, and which command helps.
package fserror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"slipway/shared/config"
)

// Explain makes a sentence of an error about path that comes from missing rights:
// whose the file is, or the folder that it would be in, who we are, and the command
// that helps. Any other error, and nil, it returns as it is. The error stays in the
// chain.
func Explain(err error, path string) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system: mount a volume there that can be written to (%w)", path, err)
	case errors.Is(err, fs.ErrPermission):
		there := nearest(path)
		if folder := filepath.Dir(path); there != path && there != folder {
			return cannotMake(folder, there, err)
		}
		return config.Unreadable(there, err)
	}
	return err
}

// cannotMake tells how to make a folder where we may not. What is above it is
// not ours to change.
func cannotMake(folder, above string, err error) error {
	uid, gid := os.Geteuid(), os.Getegid()
	return fmt.Errorf("%s does not exist, and uid %d, which this runs as, cannot make it in %s: mkdir -p %s && chown %d:%d %s, or mount a volume there (%w)",
		folder, uid, above, folder, uid, gid, folder, err)
}

// nearest is the path, or the closest folder above it that is there.
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
