package filesystem

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// A link file is 71 bytes, and a registry has as many with the same bytes as
// repositories that share a layer. A hard link to one of them needs no inode
// and no flush of its bytes, which is more than half of the cost of a mount.
// Nothing here ever writes a link in place, and neither does distribution 3.
// Distribution 2.8 does, the same bytes: beside it, a crash in that moment
// would leave all that share them empty instead of one.
//
// The keys that share a file also share its modification time. What stands for
// it is that of the key's own directory, in which the link lies alone: the kernel
// sets it when the directory gets the entry, and a renewal sets both. The file's
// own is never older than any of them by more than a tick, because it counts again for
// the last key that is left.

// sharable returns the absolute path of like if it is a file with the content,
// durable, and its directory's time can stand for its own. Else it returns "". late says
// that its own time is more than a tick ago.
func (s *Store) sharable(like string, content []byte) (name string, late bool) {
	if like == "" || !storage.ValidKey(like) {
		return "", false
	}
	name = s.root + like
	var st, dir unix.Stat_t
	if stat(name, &st) != nil || !isFile(&st) || st.Size != int64(len(content)) {
		return "", false
	}
	if st.Nlink == 1 && (stat(dirOf(name), &dir) != nil || dir.Mtim.Nano() < st.Mtim.Nano()) {
		return "", false
	}
	if _, known := s.durable.has(dirOf(name)); !known && s.makeDurable(like, name, content) != nil {
		return "", false
	}
	return name, !s.local() || time.Since(time.Unix(st.Mtim.Unix())) > fineTick
}

var errProbe = errors.New("what was written reads differently")

// makeDurable flushes a file that some process wrote, and the directories above
// it.
func (s *Store) makeDurable(key, name string, content []byte) error {
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	got := make([]byte, len(content)+1)
	n, err := read(fd, got)
	if err != nil {
		return err
	}
	if !bytes.Equal(got[:n], content) {
		return errProbe
	}
	if err := syncFile(fd); err != nil {
		return err
	}
	return s.flushDirs(key, s.durable.unflushed(name), nil)
}

// share makes name, where nothing may be, a hard link to like, which it renews if that
// is late. It is false if that cannot be, for whatever reason.
func (s *Store) share(like, name string, late bool) bool {
	var st unix.Stat_t
	return (!late || touch(like) == nil) && s.inDir(name, func() error {
		err := retry(func() error { return unix.Link(like, name) })
		if errors.Is(err, unix.ENOENT) && errors.Is(stat(like, &st), unix.ENOENT) {
			return unix.ESTALE // it is not the directory of name that is missing
		}
		return err
	}) == nil
}
