package filesystem

import (
	"bytes"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxSpares bounds how many directories are kept.
const maxSpares = 64

// spares are directories in the staging directory that wait to be used again.
// Each upload leaves one behind with a note in it, and creating and deleting
// inodes is the dearest thing that a small push does: on ext4 without a
// journal a deleted inode even slows all creations near it down for minutes.
// Taken whole, with the note, such a directory is one rename from being the next
// upload's: most notes say the same, the second in which the upload was begun.
//
// A directory becomes a spare only if this driver wrote the note as scratch, and
// is used only if nothing else is in it.
type spares struct {
	mu    sync.Mutex
	dirs  []spare
	noted map[string]*noted // directories in which this driver has written a note
}

// spare is a directory with one file in it.
type spare struct {
	dir     string // absolute
	note    string // name of the file
	content []byte
}

// noted is what this driver did in a directory.
type noted struct {
	note    string
	content []byte
	at      time.Time
	uploads int // files that it has created there, and neither moved nor deleted
}

const (
	maxNote  = 256              // bytes; what is longer is none of an upload's
	maxNoted = 4096             // bounds the memory of those that nobody discards
	soon     = 10 * time.Minute // a directory discarded later may hold anything
)

// wrote notes that name is scratch with that content.
func (s *spares) wrote(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, note := path.Split(name)
	if len(content) > maxNote {
		delete(s.noted, path.Clean(dir))
		return
	}
	if s.noted == nil || len(s.noted) >= maxNoted {
		s.noted = map[string]*noted{}
	}
	s.noted[path.Clean(dir)] = &noted{note: note, content: bytes.Clone(content), at: time.Now()}
}

// created notes n more, or less, files of uploads in the directory of name.
func (s *spares) created(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir := s.noted[path.Dir(name)]; dir != nil {
		dir.uploads += n
	}
}

// discarded returns what a directory that is to be discarded has in it, if
// that is known and worth keeping.
func (s *spares) discarded(dir string) (found spare, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.noted[dir]
	delete(s.noted, dir)
	if n == nil || n.uploads != 0 || time.Since(n.at) > soon || len(s.dirs) >= maxSpares {
		return spare{}, false
	}
	return spare{note: n.note, content: n.content}, true
}

// keep moves a directory that is to be discarded to the spares, if it may.
func (d *Driver) keep(dir string) bool {
	kept, ok := d.spares.discarded(dir)
	if !ok {
		return false
	}
	kept.dir = d.tempName()
	if rename(dir, kept.dir) != nil {
		return false
	}
	d.spares.put(kept)
	return true
}

func (s *spares) put(kept spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs = append(s.dirs, kept)
}

// take returns a spare whose note has the name; any, if it is "".
func (s *spares) take(note string) (taken spare, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.dirs) - 1; i >= 0; i-- {
		if taken = s.dirs[i]; note == "" || taken.note == note {
			s.dirs = slices.Delete(s.dirs, i, i+1)
			return taken, true
		}
	}
	return spare{}, false
}

// useSpare makes a spare the directory of name, a note that is not there yet. It
// is false if there is none or it cannot be used, for whatever reason.
func (d *Driver) useSpare(name string, content []byte) bool {
	dir, note := path.Dir(name), path.Base(name)
	s, ok := d.spares.take(note)
	if !ok {
		return false
	}
	if !holdsOnly(s.dir, note) || !bytes.Equal(s.content, content) && rewrite(s.dir+"/"+note, content) != nil {
		drop(s.dir)
		return false
	}
	if d.inDir(dir, func() error { return rename(s.dir, dir) }) != nil {
		drop(s.dir)
		return false
	}
	d.durable.forget(dir)
	return true
}

// holdsOnly says whether the directory has that file and nothing else: somebody
// may have put another into it in the moment in which it was discarded.
func holdsOnly(dir, note string) bool {
	fd, err := openDir(dir)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var buf [1024]byte
	n, err := unix.ReadDirent(fd, buf[:]) // far more room than it needs
	found := 0
	for b := buf[:max(n, 0)]; err == nil && len(b) > 0; {
		var name []byte
		switch name, _, b = nextDirent(b); string(name) {
		case ".", "..":
		case note:
			found++
		default:
			return false
		}
	}
	return err == nil && found == 1
}

// rewrite gives a file other content, in place. A file that has got a second
// name, as backups give it, is none of ours any more.
func rewrite(name string, content []byte) error {
	fd, err := open(name, unix.O_WRONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Nlink != 1 {
		return unix.EMLINK
	}
	if st.Size > int64(len(content)) {
		if err := unix.Ftruncate(fd, int64(len(content))); err != nil {
			return err
		}
	}
	_, err = writeAll(fd, content)
	return err
}

// dropSpares deletes them.
func (d *Driver) dropSpares() {
	for s, ok := d.spares.take(""); ok; s, ok = d.spares.take("") {
		drop(s.dir)
	}
}
