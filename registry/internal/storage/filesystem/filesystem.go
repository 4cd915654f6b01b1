// Package filesystem keeps a store in files below one directory, in the tree of CNCF
// distribution.
//
// # Private directories
//
// Distribution reads nothing in <root>/.staging and <root>/.locks.
//
// Each process writes new files in a directory of its own below .staging and renames them
// into place. Attempts carry that directory: a collection renames all such directories away
// and removes them, so that no attempt that began before can put anything (see staging and
// Collect).
//
// .locks holds the file whose byte ranges lock keys (see keyLocks), and one file for each
// name given to Lock.
//
// # Durability
//
// Apply writes the new files and flushes them (fdatasync), renames those of the first stage
// into place, flushes each directory that got or lost an entry (fsync), and continues with the
// next stage. A name is thus on the disk only after its bytes, and a stage only after the
// one before. The kernel reports a failed flush once: a file whose flush failed is deleted,
// and a directory's failure reaches every Apply that changed it (see dirFlusher).
//
// # Platforms
//
// Linux is supported. Other systems are for development by one process at a time: they have
// no locks between processes.
package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// fresh is the age up to which an object needn't be renewed.
const fresh = 5 * time.Second

// Store is a storage.Store on files.
type Store struct {
	root     string // absolute, without a slash at its end
	staging  string
	locks    string
	private  []string               // only the files' owner may use files below these keys; absolute
	asRoot   bool                   // new files get the owner of the root directory
	identity atomic.Pointer[rootID] // nil until the root exists

	using    sync.RWMutex // held for reading by Apply
	current  atomic.Pointer[staging]
	creating sync.Mutex // guards the creation of current
	keys     keyLocks
	dirs     dirFlusher
	removing sync.RWMutex // held for reading while directories are removed
	states   states
	wait     time.Duration // how long Collect waits while servers run
}

var _ storage.Store = (*Store)(nil)

// Open returns the store below root. It creates nothing: a root that doesn't exist is an
// empty store until something is written. A root that can only be read, or is full, is no
// error. New objects at the keys in private and below are for their owner only, whatever the
// umask allows.
func Open(root string, private ...string) (*Store, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("storage root: %w", err)
	}
	switch info, err := os.Stat(root); {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("storage root: %s: %w", root, unix.ENOTDIR)
	case err != nil && !os.IsNotExist(err):
		return nil, fmt.Errorf("storage root: %w", err)
	}
	if root == "/" {
		root = ""
	}
	s := &Store{
		root:    root,
		staging: root + "/.staging",
		locks:   root + "/.locks",
		asRoot:  os.Geteuid() == 0,
		keys:    keyLocks{fd: -1},
		dirs:    dirFlusher{running: map[string]*dirFlush{}, next: map[string]*dirFlush{}, durable: map[string]dirID{}},
		wait:    fresh + storage.ClockError,
	}
	for _, key := range private {
		s.private = append(s.private, root+key)
	}
	s.vanished() // remembers the root's identity
	return s, nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.using.Lock()
	defer s.using.Unlock()
	if d := s.current.Swap(nil); d != nil {
		os.RemoveAll(d.dir) //nolint:errcheck // the next collection removes it
	}
	s.keys.close()
	return nil
}
