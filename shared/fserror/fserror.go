// Package fserror explains why a file or folder cannot be used, and which command helps.
package fserror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"slipway/shared/fileerror"
)

// Explain returns an error about path that results from missing permissions as a sentence: the owner of the file or its folder,
// the current user, and the command that helps. It returns any other error, and nil, unchanged. The result wraps err.
func Explain(err error, path string) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system: mount a volume there that can be written to (%w)", path, err)
	case errors.Is(err, fs.ErrPermission):
		there := nearest(path)
		if folder := filepath.Dir(path); there != path && there != folder {
			return cannotMake(folder, there, err)
		}
		return fileerror.Explain(there, err)
	}
	return err
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
