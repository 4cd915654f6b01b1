// Package filesystem keeps a store in files below one directory, on Linux and
// macOS, in the tree of CNCF distribution.
//
// # Private directories
//
// Beside the tree lies <root>/.staging, which nobody but this package walks
// (both lines of CNCF distribution start their walks further down). It holds
// what is not whole yet: new files before they are renamed into place and the
// probe of Check. Everything in it may be deleted while no registry runs; Clean
// deletes what a crash left. It also tells a root that has lost its mount from
// one that is new: a root that had a .staging and has none is not written to, and
// not believed when it says that something does not exist.
//
// A second one, <root>/.locks, holds the files by which processes coordinate:
// see Coordinator and keyLock. Neither exists before somebody writes.
//
// # What Apply does
//
// For each put a file is written in .staging (an upload was written in its own
// place). Then
//
//  1. the files are flushed (fdatasync), of all stages; those that turn out to be needed
//     later, then;
//  2. those of the first stage are renamed into place;
//  3. each directory that got or lost an entry is flushed (fsync), the parents of
//     directories that are new included, up to one whose own entry is known to
//     be flushed;
//  4. the second stage follows with 2 and 3.
//
// Calls at the same time do it together: see committer. Put and deleted is under a lock,
// unless nothing is there: see keyLock.
//
// A name is thus on the disk only after its bytes, and a later stage only after
// an earlier one. After a failed flush the kernel may have dropped the dirty
// pages and reports success the next time, so a file whose flush failed is
// deleted and never flushed again.
package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// Store is a storage.Store on files.
type Store struct {
	root     string // absolute, without a slash at its end
	staging  string
	locks    string
	instance string // begins the names of this store's files in staging
	counter  atomic.Uint64
	alive    atomic.Int64 // descriptor of the locked file that says so, or -1

	using    sync.RWMutex           // held for reading by Apply
	asRoot   bool                   // new files get the owner of the root directory
	identity atomic.Pointer[rootID] // of the root directory, nil before it was seen
	device   atomic.Pointer[rootDevice]
	clocks   sync.Map // device → *clock, of others

	small    committer // of commits that only put, small files
	big      committer // of those with a big file, whose flush takes long
	deleting committer // of those that delete, which takes long for big files
	keyLocks [keyLocks]sync.Mutex
	durable  *dirSet
	spares   spares
	removing sync.RWMutex // held for reading while directories are removed

	mu       sync.Mutex
	holders  map[string]*upload // who writes which upload, by key
	watching bool               // for other processes that want one of them
	states   states

	coordinator Coordinator
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Cleaner = (*Store)(nil)
)

// Open returns the store below root. It creates nothing: a root that does not
// exist is an empty store until something is written. A root that can only be
// read, or that is full, is no error.
func Open(root string) (*Store, error) {
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
		root:     root,
		staging:  root + "/.staging",
		locks:    root + "/.locks",
		instance: newInstance(),
		asRoot:   os.Geteuid() == 0,
		durable:  newDirSet(root),
		holders:  map[string]*upload{},
	}
	s.small.s, s.big.s, s.deleting.s = s, s, s
	s.alive.Store(-1)
	s.vanished() // remembers which directory it is
	s.local()
	s.coordinator.open(s)
	return s, nil
}

// Coordinator returns what the processes that have this root open agree by. It is
// closed with the store.
func (s *Store) Coordinator() *Coordinator { return &s.coordinator }

// Close implements storage.Store.
func (s *Store) Close() error {
	s.using.Lock()
	defer s.using.Unlock()
	s.small.flusher.aio.stop()
	s.big.flusher.aio.stop()
	s.deleting.flusher.aio.stop()
	s.coordinator.close()
	s.spares.drop()
	s.leaveStaging()
	return nil
}

// abs returns the file of a key.
func (s *Store) abs(op, key string) (string, error) {
	if !storage.ValidKey(key) {
		return "", &fault{op: op, key: key, kind: storage.ErrInvalidKey}
	}
	return s.root + key, nil
}
