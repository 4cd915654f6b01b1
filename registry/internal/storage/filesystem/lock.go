package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

var (
	errServed = errors.New("a server has the storage open")
	errRemote = errors.New("servers on other machines may have the network file system open")
)

// Lock implements storage.Store. The lock of the servers is on the root directory itself,
// which also works on a read-only volume. The others are on files in .locks, whose
// content names the holder.
func (s *Store) Lock(_ context.Context, name string, shared bool) (unlock func(), err error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	if name == storage.LockServers {
		return s.lockServers(how)
	}
	fd, err := s.openLock(name, unix.O_RDWR)
	if isFull(err) || errors.Is(err, unix.EROFS) { // the lock only saves work
		return func() {}, nil
	}
	if err != nil {
		return nil, s.writeFault("lock", name, err)
	}
	if err := flock(fd, how); err != nil {
		closeFD(fd)
		return nil, s.busy(name, err, s.holder(name))
	}
	if !shared { // sign it
		host, _ := os.Hostname()
		_ = unix.Ftruncate(fd, 0)
		_, _ = unix.Pwrite(fd, fmt.Appendf(nil, "process %d (%s) on %s\n", os.Getpid(), filepath.Base(os.Args[0]), host), 0)
	}
	return sync.OnceFunc(func() { closeFD(fd) }), nil
}

func (s *Store) lockServers(how int) (unlock func(), err error) {
	if how == unix.LOCK_SH {
		if err := s.makeRoot(); err != nil {
			return nil, s.writeFault("lock", storage.LockServers, err)
		}
		// On a disk that fills up later, a collection needs the file for its locks.
		_, _ = s.keyFile()
	}
	if how == unix.LOCK_EX && s.identity.Load() != nil && !s.local() {
		return nil, s.busy(storage.LockServers, unix.EWOULDBLOCK, errRemote)
	}
	fd, err := openDir(s.rootDir())
	if isNotExist(err) && !s.vanished() { // the root doesn't exist, so no server uses it
		return func() {}, nil
	}
	if err != nil {
		return nil, s.readFault("lock", storage.LockServers, err)
	}
	if how == unix.LOCK_SH && flock(fd, unix.LOCK_EX) == nil { // the first server
		_ = s.revokeStaging() // what servers that were killed have left
		s.current.Store(nil)
	}
	if err := flock(fd, how); err != nil {
		closeFD(fd)
		if how == unix.LOCK_SH {
			return nil, s.busy(storage.LockServers, err, s.holder(storage.LockCollector))
		}
		return nil, s.busy(storage.LockServers, err, errServed)
	}
	return sync.OnceFunc(func() { closeFD(fd) }), nil
}

func (s *Store) busy(name string, err, holder error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &fault{"lock", name, storage.ErrBusy, holder}
	}
	return s.writeFault("lock", name, err)
}

// openLock opens a file of .locks, and creates it if need be.
func (s *Store) openLock(name string, mode int) (fd int, err error) {
	file := s.locks + "/" + name
	if fd, err = open(file, mode); err == nil {
		return fd, nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return -1, err
	}
	fd, err = s.create(file, file, mode)
	if errors.Is(err, unix.ENOENT) {
		if err = s.mkdir(s.locks); err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = s.create(file, file, mode)
		}
	}
	return fd, err
}

// holder describes the process that signed the lock last, nil if it isn't known.
func (s *Store) holder(name string) error {
	text, err := os.ReadFile(s.locks + "/" + name)
	if err != nil || len(text) == 0 {
		return nil //nolint:nilerr // the caller knows that the lock is held; the holder's name is optional
	}
	return errors.New("held by " + strings.TrimSpace(string(text[:min(len(text), 200)])))
}
