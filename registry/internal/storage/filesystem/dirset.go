package filesystem

import (
	"strings"
	"sync"
)

// maxDurable bounds the memory of a dirSet: so many paths, twice, are less than
// a megabyte.
const maxDurable = 2048

// dirSet holds directories whose own entries, and those of all directories
// above them, are known to be flushed. Whatever is not in it costs a flush, so
// it may forget: it keeps those used lately, in two generations.
type dirSet struct {
	root     string
	mu       sync.Mutex
	now, old map[string]uint64 // durable, or the number of the change after which it is not
	changes  uint64
}

const durable = 0

// dirEntry is a directory to be flushed, in the state in which it is now.
type dirEntry struct {
	name   string
	change uint64
}

func newDirSet(root string) *dirSet {
	return &dirSet{root: root, now: map[string]uint64{}}
}

// has says whether dir is known to be durable.
func (s *dirSet) has(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	change, known := s.get(dir)
	return known && change == durable
}

// get needs s.mu, as set does.
func (s *dirSet) get(dir string) (change uint64, known bool) {
	if change, known = s.now[dir]; known {
		return change, true
	}
	if change, known = s.old[dir]; known {
		s.set(dir, change)
	}
	return change, known
}

func (s *dirSet) set(dir string, change uint64) {
	if len(s.now) >= maxDurable {
		s.old, s.now = s.now, make(map[string]uint64, maxDurable)
	}
	s.now[dir] = change
}

// unflushed returns the directories that have to be flushed for name, a new
// entry, to outlive a power loss: its own, and the parents of those that are
// not known.
func (s *dirSet) unflushed(name string) []dirEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := dirOf(name)
	change, known := s.get(dir)
	dirs := []dirEntry{{dir, change}}
	for dir != s.root && (!known || change != durable) {
		dir = dirOf(dir)
		change, known = s.get(dir)
		dirs = append(dirs, dirEntry{dir, change})
	}
	return dirs
}

// remember notes that all that unflushed returned was flushed. What was created or
// removed since does not count.
func (s *dirSet) remember(dirs []dirEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range dirs {
		if change, _ := s.get(dir.name); change == dir.change {
			s.set(dir.name, durable)
		}
	}
}

// forget notes that dir is created or removed just now.
func (s *dirSet) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.set(dir, s.changes)
}

// dirOf is path.Dir for a name that is absolute and clean, as all here are.
func dirOf(name string) string { return name[:max(1, strings.LastIndexByte(name, '/'))] }
