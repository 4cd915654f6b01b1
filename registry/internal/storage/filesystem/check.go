package filesystem

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

var errProbe = errors.New("what was written reads differently")

// Check implements storage.Store. The small object is a file in the staging
// directory.
func (s *Store) Check(ctx context.Context, write bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.checkRead(); err != nil {
		return s.readFault("check", "/", err)
	}
	if !write {
		return nil
	}
	if err := s.checkWrite(); err != nil {
		return s.writeFault("check", "/", err)
	}
	return nil
}

// checkRead accepts a root that does not exist yet.
func (s *Store) checkRead() error {
	if s.vanished() {
		return unix.ENOENT
	}
	fd, err := openDir(s.rootDir())
	if err != nil && isNotExist(err) && s.identity.Load() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	_, err = readDir(fd)
	return err
}

// checkWrite writes, flushes, reads and deletes a probe.
func (s *Store) checkWrite() error {
	content := []byte(time.Now().Format(time.RFC3339Nano))
	name, fd, err := s.writeTemp(content)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	defer drop(name) // again, if need be
	if err := syncFile(fd); err != nil {
		return err
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content) {
		return &fault{"check", "/", storage.ErrUnavailable, errProbe}
	}
	return unlink(name)
}
