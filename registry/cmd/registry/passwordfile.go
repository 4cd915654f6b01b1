package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"slipway/registry/internal/auth"
)

// writePasswords replaces the file. It overwrites a file that can't be replaced: one that
// is itself a mount, as in a container, one in a read-only directory, and
// on a full disk one that doesn't grow, so that a user can still be removed.
func writePasswords(path string, content []byte) error {
	err := auth.ReplacePasswords(path, content)
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
