package filesystem

import (
	"bytes"
	"errors"
	"slices"
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

// share makes the file of a put, which is not there, a hard link to one with the same
// content, which was flushed. It is false if that cannot be, for whatever reason, or
// not before the file is flushed, which another process may have written.
func (c *change) share(s *Store, before []change) bool {
	like, late := s.root+c.Like, false
	if !slices.ContainsFunc(before, c.isTwin) {
		if !storage.ValidKey(c.Like) {
			return false
		}
		var sharable bool
		if sharable, late = s.sharable(like, c.Content); !sharable {
			return false
		}
		if _, known := s.durable.has(dirOf(like)); !known && c.source == "" {
			if c.fd = openSame(like, c.Content); c.fd >= 0 {
				c.source = like
			}
			return false
		}
	}
	if late && touch(like) != nil {
		return false
	}
	var st unix.Stat_t
	return s.inDir(c.name, func() error {
		err := retry(func() error { return unix.Link(like, c.name) })
		if errors.Is(err, unix.ENOENT) && errors.Is(stat(like, &st), unix.ENOENT) {
			return unix.ESTALE // it is not the directory of name that is missing
		}
		return err
	}) == nil
}

// isTwin says whether before puts what c may share; its file was flushed before either of
// them is published.
func (c *change) isTwin(before change) bool {
	return before.Key == c.Like && before.isPut() && !before.Ephemeral && before.Upload == nil && bytes.Equal(before.Content, c.Content)
}

// sharable says whether there is a file with content of that size, and its directory's
// time can stand for its own. late says that its own is more than a tick ago.
func (s *Store) sharable(name string, content []byte) (ok, late bool) {
	var st, dir unix.Stat_t
	if stat(name, &st) != nil || !isFile(&st) || st.Size != int64(len(content)) {
		return false, false
	}
	if st.Nlink == 1 && (stat(dirOf(name), &dir) != nil || dir.Mtim.Nano() < st.Mtim.Nano()) {
		return false, false
	}
	return true, !s.local() || time.Since(time.Unix(st.Mtim.Unix())) > fineTick
}

// openSame opens the file if it has that content. Else it returns -1.
func openSame(name string, content []byte) (fd int) {
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return -1
	}
	got := make([]byte, len(content)+1)
	if n, err := read(fd, got); err != nil || !bytes.Equal(got[:n], content) {
		closeFD(fd)
		return -1
	}
	return fd
}
