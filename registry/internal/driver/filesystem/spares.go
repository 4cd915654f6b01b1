package filesystem

import (
	"errors"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSpares bounds how many files and how many directories are kept.
const maxSpares = 64

// spares are files and directories in the staging directory that wait to be
// used again. Each upload leaves a directory and a note behind, and creating
// and deleting inodes is the dearest thing that a small push does: on ext4
// without a journal a deleted inode even slows all creations near it down for
// minutes.
//
// A file becomes a spare only if this driver wrote it as scratch: nobody else
// can have it open for writing, and it has no other name.
type spares struct {
	mu      sync.Mutex
	files   []string
	dirs    []string
	scratch map[string]struct{} // absolute paths of files that may become spares
}

// maxScratch bounds the memory of those that nobody discards.
const maxScratch = 4096

// wrote notes that name is scratch.
func (s *spares) wrote(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scratch == nil || len(s.scratch) >= maxScratch {
		s.scratch = map[string]struct{}{}
	}
	s.scratch[name] = struct{}{}
}

// keepFile moves a file that is to be discarded to the spares, if it may.
func (d *Driver) keepFile(name string) bool {
	d.spares.mu.Lock()
	defer d.spares.mu.Unlock()
	_, ours := d.spares.scratch[name]
	delete(d.spares.scratch, name)
	return ours && d.keep(name, &d.spares.files)
}

// keepDir moves an empty directory that is to be discarded to the spares.
func (d *Driver) keepDir(name string) bool {
	d.spares.mu.Lock()
	defer d.spares.mu.Unlock()
	return d.keep(name, &d.spares.dirs)
}

// keep needs d.spares.mu.
func (d *Driver) keep(name string, list *[]string) bool {
	if len(*list) >= maxSpares {
		return false
	}
	spare := d.tempName()
	if rename(name, spare) != nil {
		return false
	}
	*list = append(*list, spare)
	return true
}

func (s *spares) take(list *[]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(*list)
	if n == 0 {
		return ""
	}
	name := (*list)[n-1]
	*list = (*list)[:n-1]
	return name
}

// spareFile opens a spare of the size for writing. If there is none, fd is -1.
func (d *Driver) spareFile(size int) (name string, fd int) {
	name = d.spares.take(&d.spares.files)
	if name == "" {
		return "", -1
	}
	fd, err := open(name, unix.O_WRONLY|unix.O_NOFOLLOW)
	if err != nil {
		return "", -1
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Nlink != 1 {
		err = unix.EMLINK
	}
	if err == nil && st.Size > int64(size) {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		closeFD(fd)
		drop(name)
		return "", -1
	}
	return name, fd
}

// inSpareDir is inDir that makes the directory out of a spare if there is one.
func (d *Driver) inSpareDir(name string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if spare := d.spares.take(&d.spares.dirs); spare != "" {
		d.useSpare(spare, path.Dir(name))
	}
	return d.inDir(name, do)
}

func (d *Driver) useSpare(spare, dir string) {
	if isEmpty(spare) && rename(spare, dir) == nil {
		d.durable.forget(dir)
		return
	}
	drop(spare)
}

// isEmpty is false for a directory that cannot be used again: somebody may have
// put a file into it in the moment in which it was discarded.
func isEmpty(dir string) bool {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	entries, err := readDir(fd)
	return err == nil && len(entries) == 0
}

// dropSpares deletes them.
func (d *Driver) dropSpares() {
	for name := d.spares.take(&d.spares.files); name != ""; name = d.spares.take(&d.spares.files) {
		drop(name)
	}
	for name := d.spares.take(&d.spares.dirs); name != ""; name = d.spares.take(&d.spares.dirs) {
		drop(name)
	}
}
