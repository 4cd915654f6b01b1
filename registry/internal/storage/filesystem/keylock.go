package filesystem

import (
	"errors"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// keyLocks exclude changes of the same key: in this process by a mutex, between processes by
// a lock on one byte of the file .locks/keys. They lock the name and not the file behind it,
// which a change may replace. They are held while an object is replaced, renewed or deleted,
// and while a condition is checked. Creating an object needs none where the rename fails if
// there is one (see renameNew).
type keyLocks struct {
	mu   [lockCount]sync.Mutex
	open sync.Mutex // guards fd
	fd   int        // of .locks/keys, or -1
}

const (
	lockCount    = 64
	lockPatience = 10 * time.Second // for this process and others; one that keeps a lock longer is presumed suspended
	lockPoll     = time.Millisecond
)

var errStuck = errors.New("another process keeps its lock; is one suspended?")

// lockKey locks a key. On a volume without room for the file, where no other process can
// make it either, it excludes this process only; no collection runs there while servers do.
func (s *Store) lockKey(key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key) //nolint:errcheck // never fails
	n := int64(h.Sum32() % lockCount)
	mu := &s.keys.mu[n]
	begun := time.Now()
	mu.Lock()
	fd, err := s.keyFile()
	if isFull(err) {
		return mu.Unlock, nil
	}
	if err == nil {
		err = lockByte(fd, n, begun)
	}
	if err != nil {
		mu.Unlock()
		return nil, s.writeFault("lock", key, err)
	}
	return func() {
		_ = setLock(fd, n, unix.F_UNLCK)
		mu.Unlock()
	}, nil
}

func lockByte(fd int, n int64, begun time.Time) error {
	for ; ; time.Sleep(lockPoll) {
		err := setLock(fd, n, unix.F_WRLCK)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		if time.Since(begun) > lockPatience {
			return &fault{op: "lock", key: "a key", kind: storage.ErrTemporary, cause: errStuck}
		}
	}
}

// keyFile returns the open file. A deleted file is replaced.
func (s *Store) keyFile() (fd int, err error) {
	s.keys.open.Lock()
	defer s.keys.open.Unlock()
	if s.keys.fd >= 0 {
		var st unix.Stat_t
		if unix.Fstat(s.keys.fd, &st) == nil && st.Nlink > 0 {
			return s.keys.fd, nil
		}
	}
	if fd, err = s.openLock("keys", unix.O_RDWR); err != nil {
		return -1, err
	}
	s.keys.fd = fd // a deleted one stays open: others may hold its locks
	return fd, nil
}

func (k *keyLocks) close() {
	k.open.Lock()
	defer k.open.Unlock()
	if k.fd >= 0 {
		closeFD(k.fd)
		k.fd = -1
	}
}
