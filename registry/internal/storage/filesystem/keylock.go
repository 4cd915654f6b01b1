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

// keyLocks is how many locks the keys share.
const keyLocks = 32

// keyLock keeps others from changing the same key. It is held while an object is looked at,
// replaced or deleted. Who puts one where nothing is does without, by a call that fails
// where something is: as long as somebody looks at an object, it is there. Ephemeral
// deletions do without, too. So what a collector deletes, and a push puts again, while
// somebody has looked at it and deletes it, is lost; nobody looks at garbage but repairs.
type keyLock struct {
	mu *sync.Mutex // of this process, for file systems without locks; nil while it is not held
	n  uint64
	fd int
}

// Where another process keeps a lock for longer than lockPatience it has been
// stopped in the middle of a change.
const (
	lockPatience = 10 * time.Second
	lockPoll     = 200 * time.Microsecond
)

var (
	errStuck        = errors.New("another process keeps its lock; is one stopped?")
	errLocked error = &fault{"lock", "", storage.ErrUnavailable, errStuck}
)

// exclude makes the caller the only one who changes key, until release, or until
// another key needs another lock. errLocked if another process has it. On a volume without
// room for the file no other process can put anything either, so only deletions could
// meet, which agree.
func (s *Store) exclude(key string, k *keyLock) error {
	n := lockOf(key)
	if k.mu != nil && k.n == n {
		return nil
	}
	k.release()
	mu := &s.keyLocks[n]
	mu.Lock()
	fd, err := s.lock(keyLockName(n), unix.LOCK_EX)
	if err == nil || isFull(err) {
		*k = keyLock{mu, n, fd}
		return nil
	}
	mu.Unlock()
	if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
		return errLocked
	}
	return s.writeFault("lock", key, err)
}

func (k *keyLock) release() {
	if k.mu != nil {
		locks{k.fd}.drop()
		k.mu.Unlock()
		k.mu = nil
	}
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

func keyLockName(n uint64) string { return "key-" + strconv.FormatUint(n, 10) }

// hashKey is FNV-1a, the same in all processes.
func hashKey(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}
