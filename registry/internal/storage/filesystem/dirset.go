package filesystem

import (
	"cmp"
	"strings"
	"sync"
)

// maxDurable bounds the memory of a dirSet: so many paths, twice, are less than
// a megabyte.
const maxDurable = 2048

// dirSet holds directories whose own entries, and those of all directories
// above them, are known to be flushed. Whatever is not in it costs a flush, so
// it may forget: it keeps those used lately, in two generations. Another process may
// remove a directory and make it again, which nobody here is told.
type dirSet struct {
	root     string
	mu       sync.Mutex
	now, old map[string]dirState
	changes  uint64
}

// dirState is what is known of a directory.
type dirState struct {
	change uint64 // durable, or the number of the change after which it is not
	id     dirID  // of the one that was flushed
}

const durable = 0

// dirID tells a directory from one that is made later in its place, which may get
// the same inode. It is zero where there is none.
type dirID struct {
	ino         uint64
	born, nanos int64
}

// dirEntry is a directory to be flushed, in the state in which it is now.
type dirEntry struct {
	name string
	dirState
}

func newDirSet(root string) *dirSet {
	return &dirSet{root: cmp.Or(root, "/"), now: map[string]dirState{}}
}

// has says whether dir is known to be durable.
func (s *dirSet) has(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.get(dir)
	return known && state.change == durable
}

// get needs s.mu, as set does.
func (s *dirSet) get(dir string) (state dirState, known bool) {
	if state, known = s.now[dir]; known {
		return state, true
	}
	if state, known = s.old[dir]; known {
		s.set(dir, state)
	}
	return state, known
}

func (s *dirSet) set(dir string, state dirState) {
	if len(s.now) >= maxDurable {
		s.old, s.now = s.now, make(map[string]dirState, maxDurable)
	}
	s.now[dir] = state
}

// unflushed returns the directories that have to be flushed for name, a new
// entry, to outlive a power loss: its own, and the parents of those that are
// not known.
func (s *dirSet) unflushed(name string) (dirs []dirEntry) {
	for dir := dirOf(name); ; dir = dirOf(dir) {
		entry, flushed := s.look(dir, len(dirs) > 0)
		dirs = append(dirs, entry)
		if flushed || dir == s.root {
			return dirs
		}
	}
}

// look says in which state dir is, and whether its own entry is known to be flushed.
// A parent is asked which directory it is, even if it is new: others follow it there.
func (s *dirSet) look(dir string, parent bool) (entry dirEntry, flushed bool) {
	s.mu.Lock()
	state, known := s.get(dir)
	s.mu.Unlock()
	entry = dirEntry{dir, dirState{change: state.change}}
	if flushed = known && state.change == durable; flushed || parent {
		entry.id = identify(dir)
	}
	return entry, flushed && entry.id == state.id
}

// remember notes that all that unflushed returned was flushed. What was created or
// removed since does not count.
func (s *dirSet) remember(dirs []dirEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range dirs {
		if state, _ := s.get(dir.name); state.change == dir.change {
			s.set(dir.name, dirState{durable, dir.id})
		}
	}
}

// forget notes that dir is created or removed just now.
func (s *dirSet) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.set(dir, dirState{change: s.changes})
}

// dirOf is path.Dir for a name that is absolute and clean, as all here are.
func dirOf(name string) string { return name[:max(1, strings.LastIndexByte(name, '/'))] }
