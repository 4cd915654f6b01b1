package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"slipway/shared/durable"
)

// writePasswords replaces the file. It overwrites a file that can't be replaced: one that
// is itself a mount, as in a container, one in a read-only directory, and
// on a full disk one that doesn't grow, so that a user can still be removed.
func writePasswords(path string, content []byte) error {
	err := replaceFile(path, content)
	reasons := []error{syscall.EBUSY, syscall.EROFS, fs.ErrPermission}
	if info, e := os.Stat(path); e == nil && int64(len(content)) <= info.Size() {
		reasons = append(reasons, syscall.ENOSPC, syscall.EDQUOT)
	}
	if !slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) }) {
		return err
	}
	if over := overwriteFile(path, content); !errors.Is(over, fs.ErrNotExist) {
		return over
	}
	return err
}

// overwriteFile overwrites the content of an existing file and truncates it
// last.
func overwriteFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(padLines(content, info.Size()))
	}
	if err == nil {
		err = f.Truncate(int64(len(content)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// padLines appends empty lines up to the size of the content that is overwritten, so
// that no reader sees half a line of it before the file is truncated.
func padLines(content []byte, size int64) []byte {
	return append(slices.Clip(content), bytes.Repeat([]byte("\n"), max(0, int(size)-len(content)))...)
}

// replaceFile replaces the file atomically, so that a
// registry never reads half of it, and keeps mode and owner; a new file is readable
// by its owner only.
func replaceFile(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	next, err := os.CreateTemp(dir, ".htpasswd-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = next.Close()
			_ = os.Remove(next.Name())
		}
	}()
	if err := copyOwnership(next, path); err != nil {
		return err
	}
	if _, err := next.Write(content); err != nil {
		return err
	}
	if err := next.Sync(); err != nil {
		return err
	}
	if err := next.Close(); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// copyOwnership gives the file the mode and owner of the file that it replaces: root
// may edit the file of a service that runs as another user.
func copyOwnership(f *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, ok := old.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Getuid() || int(s.Gid) != os.Getgid()) {
		if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return fmt.Errorf("keep the owner of %s: %w", path, err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}
