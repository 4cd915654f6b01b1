package filesystem

import (
	"maps"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// spares are directories in the staging directory, each with one small file, that
// wait to be used again. Every upload leaves its directory with the note of when
// it began, and creating and deleting inodes is the dearest thing that a small push
// does: on ext4 without a journal a deleted inode even slows all creations near it
// down for minutes. Kept whole, such a directory is one write and one rename from
// being the next upload's.
type spares struct {
	mu   sync.Mutex
	free map[string][]spare // by the name of the file; only names that were asked for
}

// spare is a directory. Its file is not kept open: a file that is open for writing
// keeps its file system from being remounted read-only.
type spare struct {
	dir string
}

const (
	maxSpares     = 64 // of a name
	maxSpareNames = 4
	maxNote       = 256 // bytes, what the file may hold
)

// take returns a spare whose file has the name.
func (p *spares) take(name string) (taken spare, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, known := p.free[name]
	if n := len(free); n > 0 {
		p.free[name] = free[:n-1]
		return free[n-1], true
	}
	if !known {
		p.ask(name)
	}
	return spare{}, false
}

// ask notes that spares with that file are of use, in place of a name of which
// there never was one if there are many: names of marks do not come again. It needs
// p.mu.
func (p *spares) ask(name string) {
	if p.free == nil {
		p.free = map[string][]spare{}
	}
	if len(p.free) >= maxSpareNames {
		maps.DeleteFunc(p.free, func(_ string, free []spare) bool { return free == nil })
	}
	if len(p.free) < maxSpareNames {
		p.free[name] = nil
	}
}

// wants says whether a spare with that file is of use.
func (p *spares) wants(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, known := p.free[name]
	return known && len(free) < maxSpares
}

func (p *spares) add(name string, s spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = map[string][]spare{}
	}
	p.free[name] = append(p.free[name], s)
}

// drop deletes them all.
func (p *spares) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, free := range p.free {
		for _, s := range free {
			s.drop()
		}
	}
	p.free = nil
}

func (s *spare) drop() { drop(s.dir) }

// keepSpare takes away the file at name together with its directory, if nothing
// else is in it. What somebody adds in this very moment goes with it; an upload that
// meets it there is begun again.
func (s *Store) keepSpare(name string) bool {
	dir, base := path.Split(name)
	if dir = path.Clean(dir); !s.spares.wants(base) || !holdsOnly(dir, base) {
		return false
	}
	kept := spare{s.tempName()}
	s.durable.forget(dir)
	if rename(dir, kept.dir) != nil {
		return false
	}
	s.spares.add(base, kept)
	return true
}

// useSpare writes a file into a spare and makes that its directory, which is not
// there yet. It is false if there is no spare, or it cannot be used for whatever
// reason.
func (s *Store) useSpare(name string, content []byte) bool {
	dir, base := path.Split(name)
	if dir = path.Clean(dir); len(content) > maxNote {
		return false
	}
	kept, ok := s.spares.take(base)
	if !ok {
		return false
	}
	if !rewriteNote(kept.dir+"/"+base, content) || s.inDir(dir, func() error { return rename(kept.dir, dir) }) != nil {
		kept.drop()
		return false
	}
	s.durable.forget(dir)
	return true
}

// rewriteNote writes into a small file. It is false for one that has got a second
// name, as backups give it.
func rewriteNote(name string, content []byte) bool {
	fd, err := open(name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !isFile(&st) || st.Nlink != 1 || st.Size > maxNote || pwrite(fd, content, 0) != nil {
		return false
	}
	return st.Size == int64(len(content)) || unix.Ftruncate(fd, int64(len(content))) == nil
}

// holdsOnly says whether the directory has that file and nothing else.
func holdsOnly(dir, name string) bool {
	fd, err := openDir(dir)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var buf [1024]byte
	n, err := unix.ReadDirent(fd, buf[:]) // far more room than it needs
	found := 0
	for b := buf[:max(n, 0)]; err == nil && len(b) > 0; {
		var entry []byte
		switch entry, _, b = nextDirent(b); string(entry) {
		case ".", "..":
		case name:
			found++
		default:
			return false
		}
	}
	return err == nil && found == 1
}
