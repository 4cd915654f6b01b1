// Package memory keeps everything in the process: the driver "inmemory" for
// trials and for the tests of the rules. Like an object store it has no empty
// directories and shows an upload only once it is committed.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/driver"
)

// Driver is a driver.Driver in memory. What it holds is gone with it.
type Driver struct {
	mu      sync.RWMutex
	root    *node
	uploads map[string]*uploadData // those not committed, by path
	changes uint64                 // counts them, for Version

	sections      sections
	collecting    sync.Mutex
	turn          sync.RWMutex // held by servers together, or by who is alone
	waiting       atomic.Int32
	requested     atomic.Int64 // nanoseconds
	servers       int
	serverChanges int
}

// New returns an empty driver.
func New() *Driver {
	return &Driver{
		root:     &node{children: map[string]*node{}},
		uploads:  map[string]*uploadData{},
		sections: sections{current: new(sync.WaitGroup)},
	}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return "inmemory" }

// Close implements driver.Driver.
func (d *Driver) Close() error { return nil }

// Sweep implements driver.Driver.
func (d *Driver) Sweep(context.Context) error { return nil }

// Check implements driver.Driver.
func (d *Driver) Check(context.Context, bool) error { return nil }

// Stat implements driver.Driver.
func (d *Driver) Stat(_ context.Context, path string) (driver.Info, error) {
	n, err := d.lookup(path)
	if err != nil {
		return driver.Info{}, err
	}
	return driver.Info{Size: int64(len(n.content)), Dir: n.dir(), Changed: n.changed, Moved: n.moved}, nil
}

// Find implements driver.Driver.
func (d *Driver) Find(ctx context.Context, first, second string) (info driver.Info, at string, err error) {
	for _, path := range []string{first, second, first} {
		if info, err = d.Stat(ctx, path); !errors.Is(err, driver.ErrNotExist) {
			return info, path, err
		}
	}
	return driver.Info{}, "", err
}

// ReadFile implements driver.Driver.
func (d *Driver) ReadFile(_ context.Context, path string, limit int64) ([]byte, error) {
	n, err := d.object(path)
	if err != nil {
		return nil, err
	}
	if int64(len(n.content)) > limit {
		return nil, fmt.Errorf("%s: %w", path, driver.ErrTooLarge)
	}
	return bytes.Clone(n.content), nil
}

// Open implements driver.Driver.
func (d *Driver) Open(_ context.Context, path string) (driver.File, error) {
	n, err := d.object(path)
	if err != nil {
		return nil, err
	}
	return file{bytes.NewReader(n.content)}, nil
}

// List implements driver.Driver. It lists what was there when it began.
func (d *Driver) List(_ context.Context, dir, after string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		entries, err := d.entries(dir, after)
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (d *Driver) entries(dir, after string) ([]driver.Entry, error) {
	n, err := d.lookup(dir)
	if err != nil {
		return nil, err
	}
	if !n.dir() {
		return nil, notExist(dir)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	var entries []driver.Entry
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		e := driver.Entry{Name: name, Dir: n.children[name].dir()}
		if name > after && !e.Temporary() {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// Version implements driver.Driver.
func (d *Driver) Version(_ context.Context, path string) (string, bool) {
	n, err := d.lookup(path)
	return fmt.Sprint(n.version), err == nil
}

// Remove implements driver.Driver.
func (d *Driver) Remove(_ context.Context, path string) error {
	if _, err := d.object(path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(path)
	return nil
}

// WriteScratch implements driver.Driver.
func (d *Driver) WriteScratch(ctx context.Context, path string, content []byte) error {
	return d.Commit(ctx, driver.Stage{{Path: path, Content: content}})
}

// Discard implements driver.Driver.
func (d *Driver) Discard(ctx context.Context, path string) error {
	return d.Commit(ctx, driver.Stage{{Path: path, Remove: true}})
}

// lookup returns a copy of the node at path.
func (d *Driver) lookup(path string) (node, error) {
	if !driver.ValidPath(path) {
		return node{}, fmt.Errorf("%q: %w", path, driver.ErrInvalidPath)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := d.find(path)
	if n == nil {
		return node{}, notExist(path)
	}
	return *n, nil
}

// find needs d.mu. It returns nil if there is nothing.
func (d *Driver) find(path string) *node {
	n := d.root
	for name := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

func (d *Driver) object(path string) (node, error) {
	n, err := d.lookup(path)
	if err == nil && n.dir() {
		return node{}, notExist(path)
	}
	return n, err
}

func notExist(path string) error { return fmt.Errorf("%s: %w", path, driver.ErrNotExist) }

// node is an object, or a directory if it has a map of children. The content
// of an object never changes: another node takes its place.
type node struct {
	children map[string]*node
	content  []byte
	changed  time.Time
	moved    time.Time // to where it is
	version  uint64    // d.changes when it came, or a child of it last came or went
}

func (n *node) dir() bool { return n.children != nil }

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }
