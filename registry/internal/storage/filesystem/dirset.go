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
	now, old map[string]struct{}
}

func newDirSet(root string) *dirSet {
	return &dirSet{root: root, now: map[string]struct{}{}}
}

// has says whether dir is known.
func (s *dirSet) has(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.use(dir)
}

// use needs s.mu, as add does.
func (s *dirSet) use(dir string) bool {
	if _, ok := s.now[dir]; ok {
		return true
	}
	_, ok := s.old[dir]
	if ok {
		s.add(dir)
	}
	return ok
}

func (s *dirSet) add(dir string) {
	if len(s.now) >= maxDurable {
		s.old, s.now = s.now, make(map[string]struct{}, maxDurable)
	}
	s.now[dir] = struct{}{}
}

// unflushed returns the directories that have to be flushed for name, a new
// entry, to outlive a power loss: its own, and the parents of those that are
// not known.
func (s *dirSet) unflushed(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := dirOf(name)
	dirs := []string{dir}
	for dir != s.root && !s.use(dir) {
		dir = dirOf(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// remember notes that all that unflushed returned was flushed.
func (s *dirSet) remember(dirs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range dirs {
		s.add(dir)
	}
}

// forget notes that dir was created just now.
func (s *dirSet) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, dir)
	delete(s.old, dir)
}

// dirOf is path.Dir for a name that is absolute and clean, as all here are.
func dirOf(name string) string { return name[:max(1, strings.LastIndexByte(name, '/'))] }
