// Package secretfile keeps files with secrets readable by their owner only.
package secretfile

import (
	"errors"
	"io/fs"
	"os"
)

// others are the permissions of everybody but the owner.
const others = 0o077

// Exposed returns the files and directories that users other than their owner
// may use. Paths that don't exist or can't be examined are left out.
func Exposed(paths ...string) []string {
	var exposed []string
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type()&^fs.ModeDir == 0 && info.Mode().Perm()&others != 0 {
			exposed = append(exposed, path)
		}
	}
	return exposed
}

// Restrict takes the permissions of everybody but the owner from the paths that are
// Exposed, and returns those that it changed. The error joins what could not be changed.
func Restrict(paths ...string) (changed []string, err error) {
	for _, path := range Exposed(paths...) {
		e := restrict(path)
		if e == nil {
			changed = append(changed, path)
		}
		err = errors.Join(err, e)
	}
	return changed, err
}

func restrict(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&^others)
}
