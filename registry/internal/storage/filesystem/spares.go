package filesystem

import (
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
	mu      sync.Mutex
	free    []spare
	asked   string            // the name that was asked for last: no other is kept
	written map[string]string // what was lately written where
}

// spare is a directory, the name of its file, and what is known to be in that, or "". The
// file is not kept open: one that is open for writing keeps its file system from being
// remounted read-only.
type spare struct{ dir, file, content string }

const (
	maxSpares  = 64
	maxNote    = 256 // bytes, what the file may hold
	maxWritten = 1024
)

// take returns a spare whose file has the name, and best the content, which is about to be
// written at path.
func (p *spares) take(path, file, content string) (taken spare, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = file
	if p.written == nil || len(p.written) >= maxWritten {
		p.written = map[string]string{}
	}
	p.written[path] = content
	best := -1
	for i := len(p.free) - 1; i >= 0; i-- {
		if s := &p.free[i]; s.file == file && (best < 0 || s.content == content) {
			if best = i; s.content == content {
				break
			}
		}
	}
	if best < 0 {
		return spare{}, false
	}
	taken = p.free[best]
	p.free = slices.Delete(p.free, best, best+1)
	return taken, true
}

// contentOf forgets what was written at path and returns it, "" if that is not known.
func (p *spares) contentOf(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	content := p.written[path]
	delete(p.written, path)
	return content
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
	kept := spare{s.tempName(), base, s.spares.contentOf(name)}
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
	kept, ok := s.spares.take(name, base, string(content))
	if !ok {
		return false
	}
	write := rewriteNote
	if kept.content == string(content) {
		write = isNote
	}
	if !write(kept.dir+"/"+base, content) || s.inDir(dir, func() error { return rename(kept.dir, dir) }) != nil {
		drop(kept.dir)
		return false
	}
	return true
}

// isNote says whether a file is as rewriteNote has left it with that content.
func isNote(name string, content []byte) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && isFile(&st) && st.Nlink == 1 && st.Size == int64(len(content))
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
	entries, err := readDir(fd)
	return err == nil && len(entries) == 1 && entries[0].name == name
}
