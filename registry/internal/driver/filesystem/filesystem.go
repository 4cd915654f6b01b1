// Package filesystem keeps the tree in files below one directory, on Linux.
//
// # The private directory
//
// Beside the tree lies <root>/.staging, which nobody but this package walks
// (both lines of CNCF distribution start their walks further down). It holds
// what is not whole yet: new files before they are renamed into place, removed
// trees until they are deleted, the probe of Check. Everything in it may be
// deleted while no registry runs; what a crash leaves there is swept at the next
// start, with each purge of uploads and each check. Where it cannot be made, on a
// full volume, a tree that is removed becomes <root>/.staging-* meanwhile.
// It also tells a root that has lost its mount from one that is new: a root
// that had a .staging and has none is not written to, and not believed when it
// says that something does not exist.
//
// A second one, <root>/.locks, holds files that are only locked, by which
// processes know of each other: see gate.go.
//
// # What a commit does
//
// For each change a file is written in .staging (an upload was written in its
// own place). Then, for all commits that wait at the same time together:
//
//  1. the files are flushed (fdatasync), of all stages;
//  2. those of the first stage are renamed into place;
//  3. each directory that got an entry is flushed (fsync), the parents of
//     directories that are new included, up to one whose own entry is known to
//     be flushed;
//  4. the second stage follows with 2 and 3, in the next round.
//
// A name is thus on the disk only after its bytes, and a later stage only after
// an earlier one. After a failed flush the kernel may have dropped the dirty
// pages and reports success the next time, so a file whose flush failed is
// deleted and never flushed again.
package filesystem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// Driver is a driver.Driver on files.
type Driver struct {
	root       string // absolute, without a slash at its end
	staging    string
	locks      string // the directory of files that are only locked
	identity   fileID // of the root when it was opened
	localClock bool
	locked     atomic.Int64 // the file that says that the instance lives, or -1
	instance   string       // begins the names of this driver's files in staging
	counter    atomic.Uint64

	durable   *dirSet
	spares    spares
	committer *committer
	big       *lane

	gates     [2]gate
	epochSeen atomic.Pointer[epochSeen]
	remote    remoteClock

	removing sync.RWMutex // held for reading by those who remove directories

	mu      sync.Mutex
	holders map[string]*upload // who writes which upload, by path
	sole    locks              // the root, and then a file, locked by a collector that found no room for the file

	reserving sync.Mutex // held by who adds to the reserve or takes of it
}

var _ driver.Driver = (*Driver)(nil)

// Open returns the driver for the tree below root, which it creates if it is
// missing. A root that can only be read, or that is full, is no error.
func Open(root string) (*Driver, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if err := makeRoot(root); err != nil {
		return nil, fmt.Errorf("storage root: %w", err)
	}
	d := &Driver{
		root:     root,
		staging:  root + "/.staging",
		locks:    root + "/.locks",
		instance: newInstance(),
		durable:  newDirSet(root),
		holders:  map[string]*upload{},
	}
	if root == "/" {
		d.root, d.staging, d.locks = "", "/.staging", "/.locks"
	}
	if d.identity, err = identify(root); err != nil {
		return nil, fmt.Errorf("storage root: %w", err)
	}
	d.localClock = stampsLocally(root)
	d.locked.Store(-1)
	if err := d.makeStaging(); err != nil && !canOnlyRead(err) && !isFull(err) {
		return nil, fmt.Errorf("storage root: %s: %w", d.staging, err)
	}
	d.sweep(time.Now())
	d.committer, d.big = startCommitter(d), startLane()
	return d, nil
}

// makeRoot creates the root and the directories above it, and makes their
// entries durable.
func makeRoot(root string) error {
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w", root, unix.ENOTDIR)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(root)
	if err := makeRoot(parent); err != nil {
		return err
	}
	if err := os.Mkdir(root, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return "filesystem" }

// Close implements driver.Driver.
func (d *Driver) Close() error {
	d.committer.stop()
	d.big.stop()
	d.dropSpares()
	d.leaveStaging()
	return nil
}

// abs is the place of a path in the file system.
func (d *Driver) abs(op, path string) (string, error) {
	if !driver.ValidPath(path) {
		return "", &fault{op: op, path: path, kind: driver.ErrInvalidPath}
	}
	return d.root + path, nil
}
