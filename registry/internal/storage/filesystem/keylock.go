package filesystem

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// keyLocks is how many locks the keys share. A lock is held for no longer than the
// changes of one stage take that follow each other under it.
const keyLocks = 32

// keyLock keeps changes of a key from each other: goroutines by the mutex,
// processes by a lock on the file.
type keyLock struct {
	mu     sync.Mutex
	file   lockFile
	held   bool      // the file; not where there is no room for it
	looked time.Time // when it was certain that the file still has its name
}

// Where another process keeps a lock for longer than lockPatience it has been
// stopped in the middle of a change.
const (
	lockPatience = 10 * time.Second
	lockPoll     = 200 * time.Microsecond
	lockLook     = time.Second // how often it is looked whether the file still has its name
)

// exclude makes the caller the only one who changes key, until release. held is
// what he excludes others from already, or nil: it is released if key needs another lock.
// It waits for other processes without the mutex, which nobody keeps for long.
func (s *Store) exclude(key string, held *keyLock) (*keyLock, error) {
	n := lockOf(key)
	k := &s.keyLocks[n]
	if k == held {
		return k, nil
	}
	held.release()
	k.mu.Lock()
	err := k.lockFile(s, n)
	for begin := time.Now(); err == unix.EWOULDBLOCK; err = k.lockFile(s, n) { //nolint:errorlint // a bare errno
		k.mu.Unlock()
		if time.Since(begin) > lockPatience {
			return nil, &fault{"lock", key, storage.ErrUnavailable, errStuck}
		}
		time.Sleep(lockPoll)
		k.mu.Lock()
	}
	if err != nil {
		k.mu.Unlock()
		return nil, err
	}
	return k, nil
}

// lockOf is the number of the lock of a key, the same in all processes. What lies in
// directories that are named after one digest has one lock: the bytes, links and history
// that a push writes.
func lockOf(key string) uint64 {
	dir := dirOf(key)
	if name := dir[strings.LastIndexByte(dir, '/')+1:]; len(name) >= 64 {
		key = name
	}
	return hashKey(key) % keyLocks
}

var errStuck = errors.New("another process keeps its lock; is one stopped?")

// lockFile needs k.mu. On a volume without room for the file no other process
// can put anything either, so only deletions could meet, which agree.
func (k *keyLock) lockFile(s *Store, n uint64) error {
	if now := time.Now(); now.Sub(k.looked) >= lockLook {
		if k.file.fd != 0 && unlinked(k.file.fd-1) {
			k.file.close()
		}
		k.looked = now
	}
	if k.file.name == "" {
		k.file.name = keyLockName(n)
	}
	fd, err := k.file.open(s, s.lockMode(unix.LOCK_EX))
	if isFull(err) {
		return nil
	}
	if err == nil {
		err = flock(fd, unix.LOCK_EX)
	}
	k.held = err == nil
	return err
}

func keyLockName(n uint64) string { return "key-" + strconv.FormatUint(n, 10) }

// release of nil does nothing.
func (k *keyLock) release() {
	if k == nil {
		return
	}
	if k.held {
		k.held = false
		_ = flock(k.file.fd-1, unix.LOCK_UN)
	}
	k.mu.Unlock()
}

// hashKey is FNV-1a, the same in all processes.
func hashKey(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}
