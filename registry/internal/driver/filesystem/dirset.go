package filesystem

import (
	"maps"
	"path"
	"strings"
	"sync"
)

// maxDurable bounds the memory of a dirSet; 4096 paths are about a megabyte.
const maxDurable = 4096

// dirSet holds directories whose own entries, and those of all directories
// above them, are known to be flushed. Whatever is not in it costs a flush, so
// it may forget.
type dirSet struct {
	root string
	mu   sync.Mutex
	dirs map[string]struct{}
}

func newDirSet(root string) *dirSet {
	return &dirSet{root: root, dirs: map[string]struct{}{}}
}

// unflushed returns the directories that have to be flushed for name, a new
// entry, to outlive a power loss: its own, and the parents of those that are
// not known.
func (s *dirSet) unflushed(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := path.Dir(name)
	dirs := []string{dir}
	for dir != s.root {
		if _, known := s.dirs[dir]; known {
			break
		}
		dir = path.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// remember notes that all that unflushed returned was flushed.
func (s *dirSet) remember(dirs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dirs) > maxDurable {
		clear(s.dirs)
	}
	for _, dir := range dirs {
		s.dirs[dir] = struct{}{}
	}
}

// forget notes that dir was created just now.
func (s *dirSet) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, dir)
}

// forgetTree notes that dir and all below it are gone. Where something below is
// known, dir is.
func (s *dirSet) forgetTree(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.dirs[dir]; !known {
		return
	}
	maps.DeleteFunc(s.dirs, func(known string, _ struct{}) bool {
		return known == dir || strings.HasPrefix(known, dir+"/")
	})
}
