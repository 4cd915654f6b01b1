package filesystem

import (
	"cmp"
	"strings"
	"sync"
)

// maxDurable bounds the memory of a dirSet: so many paths, twice, are less than a
// megabyte.
const maxDurable = 2048

// dirSet holds directories whose own entries, and those of all directories
// above them, are known to be flushed. Whatever is not in it costs a flush, so
// it may forget: it keeps those used lately, in two generations. Another process may
// remove a directory and make it again, so each is known with its identity, which a
// flush looks at.
type dirSet struct {
	root     string
	mu       sync.Mutex
	now, old map[string]dirID
	removals uint64 // grows when a directory is removed
}

// dirID tells a directory from one that is made later in its place, which may get
// the same inode. A file system that does not know when it was born says 0.
type dirID struct {
	ino         uint64
	born, nanos int64
}

func newDirSet(root string) *dirSet {
	return &dirSet{root: cmp.Or(root, "/"), now: map[string]dirID{}}
}

// has says whether a directory dir is known to be durable, with its identity.
func (s *dirSet) has(dir string) (id dirID, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, known = s.now[dir]; known {
		return id, true
	}
	if id, known = s.old[dir]; known {
		s.set(dir, id)
	}
	return id, known
}

// set needs s.mu.
func (s *dirSet) set(dir string, id dirID) {
	if len(s.now) >= maxDurable {
		s.old, s.now = s.now, make(map[string]dirID, maxDurable)
	}
	s.now[dir] = id
}

// above returns dir and those above it, up to the first that is known. For a new entry
// of dir to outlive a power loss all of them have to be flushed.
func (s *dirSet) above(dir string) (dirs []string) {
	for ; ; dir = dirOf(dir) {
		dirs = append(dirs, dir)
		if _, known := s.has(dir); known || dir == s.root {
			return dirs
		}
	}
}

// count is a state of the set, for remember.
func (s *dirSet) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removals
}

// remember notes directories that were flushed since that count, with all that is above
// them. One that nothing but its inode tells from another does not count if any was
// removed meanwhile.
func (s *dirSet) remember(flushed map[string]*flush, since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir, f := range flushed {
		if f.durable() && (f.id.born != 0 || s.removals == since) {
			s.set(dir, f.id)
		}
	}
}

// forget notes that dir is about to be removed.
func (s *dirSet) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removals++
	delete(s.now, dir)
	delete(s.old, dir)
}

// dirOf is path.Dir for a name that is absolute and clean, as all here are.
func dirOf(name string) string { return name[:max(1, strings.LastIndexByte(name, '/'))] }
