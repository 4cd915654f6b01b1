package filesystem

import (
	"bytes"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// spares are directories in the staging directory, each with one small file, that
// wait to be used again. Every upload leaves its directory with the note of when
// it began, and creating and deleting inodes is the dearest thing that a small push
// does on a disk: see docs/decisions/0001. Kept whole, such a directory is one rename
// from being the next upload's, for most notes say the same second; else one write more.
type spares struct {
	mu    sync.Mutex
	free  []spare
	asked string // the name that was asked for last: no other is kept
}

// spare is a directory and the name of its file, which is not kept open (a file that
// is open for writing keeps its file system from being remounted read-only).
type spare struct{ dir, file string }

const (
	maxSpares = 64
	maxNote   = 256 // bytes, what the file may hold
)

// take returns the newest spare whose file has the name.
func (p *spares) take(file string) (taken spare, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = file
	for i := len(p.free) - 1; i >= 0; i-- {
		if p.free[i].file == file {
			taken = p.free[i]
			p.free = slices.Delete(p.free, i, i+1)
			return taken, true
		}
	}
	return spare{}, false
}

// wants says whether a spare with that file is of use. What else is deleted, bytes
// above all, must be gone at once.
func (p *spares) wants(file string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked == file
}

// add keeps s. The oldest goes for it if there are many, so that names which do not
// come again make room.
func (p *spares) add(s spare) {
	p.mu.Lock()
	p.free = append(p.free, s)
	var oldest spare
	if len(p.free) > maxSpares {
		oldest = p.free[0]
		p.free = slices.Delete(p.free, 0, 1)
	}
	p.mu.Unlock()
	if oldest.dir != "" {
		drop(oldest.dir)
	}
}

// drop deletes them all.
func (p *spares) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.free {
		drop(s.dir)
	}
	p.free = nil
}

// keepSpare takes away the file at name together with its directory, if nothing
// else is in it. What somebody adds in this very moment goes with it; an upload that
// meets it there is begun again.
func (s *Store) keepSpare(name string) bool {
	dir, base := path.Split(name)
	if dir = path.Clean(dir); !s.spares.wants(base) || !holdsOnly(dir, base) {
		return false
	}
	kept := spare{s.tempName(), base}
	if rename(dir, kept.dir) != nil {
		return false
	}
	s.spares.add(kept)
	return true
}

// useSpare makes a spare the directory of a file that is not there yet. It is false if
// there is no spare, or it cannot be used for whatever reason.
func (s *Store) useSpare(name string, content []byte) bool {
	dir, base := path.Split(name)
	if dir = path.Clean(dir); len(content) > maxNote {
		return false
	}
	kept, ok := s.spares.take(base)
	if !ok {
		return false
	}
	if !writeNote(kept.dir+"/"+base, content) || s.inDir(dir, func() error { return rename(kept.dir, dir) }) != nil {
		drop(kept.dir)
		return false
	}
	return true
}

// writeNote makes a small file hold the content. It is false for one that has got a second
// name, as backups give it.
func writeNote(name string, content []byte) bool {
	fd, err := open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !isFile(&st) || st.Nlink != 1 || st.Size > maxNote {
		return false
	}
	var said [maxNote]byte
	if n, err := pread(fd, said[:st.Size], 0); err == nil && bytes.Equal(said[:n], content) {
		return true
	}
	return pwrite(fd, content, 0) == nil && unix.Ftruncate(fd, int64(len(content))) == nil
}

// holdsOnly says whether the directory has that file and nothing else.
func holdsOnly(dir, name string) bool {
	fd, err := openDir(dir)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	entries, err := readDir(fd)
	return err == nil && len(entries) == 1 && entries[0].name == name
}
