// Package memory keeps a store in the process: the driver "inmemory" for
// trials, and the store of most tests. Like an object store it has no directories
// and no rename.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// Memory is a storage.Store. What it holds ends with it.
type Memory struct {
	mu      sync.RWMutex
	objects map[string]*object
	keys    []string           // of objects, sorted
	names   map[string]uint64  // per prefix: count when a name directly below it last came or went
	uploads map[string]*upload // those under way, by key
	locks   map[string]int     // holders of each lock, -1 = one alone
	fence   uint64             // attempts that began before it are over
	count   uint64             // of all changes and attempts; versions are taken from it
	clock   func() time.Time
}

var _ storage.Store = (*Memory)(nil)

// object never changes: another takes its place.
type object struct {
	content  []byte
	modified time.Time
	version  uint64
}

// New returns an empty store.
func New() *Memory {
	return &Memory{
		objects: map[string]*object{},
		names:   map[string]uint64{},
		uploads: map[string]*upload{},
		locks:   map[string]int{},
		clock:   time.Now,
	}
}

// SetClock replaces the clock that Info.Modified is taken from: a test that needs
// whole seconds, or another hour, passes its own.
func (m *Memory) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = now
}

// Stat implements storage.Store.
func (m *Memory) Stat(_ context.Context, key string) (storage.Info, error) {
	if prefix, ok := strings.CutSuffix(key, "/"); ok {
		return m.statPrefix(prefix)
	}
	if err := valid(key); err != nil {
		return storage.Info{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if o := m.objects[key]; o != nil {
		return o.info(key), nil
	}
	if u := m.uploads[key]; u != nil {
		return storage.Info{Key: key, Size: int64(len(u.content)), Modified: u.modified}, nil
	}
	return storage.Info{}, notExist(key)
}

// Open implements storage.Store.
func (m *Memory) Open(_ context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fmt.Errorf("%s: negative offset %d", key, offset)
	}
	m.mu.RLock()
	o := m.objects[key]
	m.mu.RUnlock()
	if o == nil {
		return nil, notExist(key)
	}
	content := o.content[min(offset, int64(len(o.content))):]
	if length >= 0 {
		content = content[:min(length, int64(len(content)))]
	}
	return &storage.Object{Info: o.info(key), ReadCloser: io.NopCloser(bytes.NewReader(content))}, nil
}

// Close implements storage.Store.
func (m *Memory) Close() error { return nil }

func (o *object) info(key string) storage.Info {
	return storage.Info{Key: key, Size: int64(len(o.content)), Modified: o.modified, Version: strconv.FormatUint(o.version, 10)}
}

func valid(key string) error {
	if !storage.ValidKey(key) {
		return fmt.Errorf("%q: %w", key, storage.ErrInvalidKey)
	}
	return nil
}

func notExist(key string) error { return fmt.Errorf("%s: %w", key, storage.ErrNotExist) }
