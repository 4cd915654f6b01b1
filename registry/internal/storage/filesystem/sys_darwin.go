package filesystem

import "golang.org/x/sys/unix"

// unlink removes a name; of a directory it says EISDIR, as Linux does.
func unlink(path string) error {
	err := retry(func() error { return unix.Unlink(path) })
	var st unix.Stat_t
	if err == unix.EPERM && unix.Lstat(path, &st) == nil && isDir(&st) { //nolint:errorlint // a bare errno
		return unix.EISDIR
	}
	return err
}

// renameNew is rename to a name that does not exist; EEXIST if it does. Some file systems
// do not know it.
func renameNew(from, to string) error {
	return retry(func() error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) })
}

// syncFile flushes a file and the disk's own cache, which fsync leaves alone
// here.
func syncFile(fd int) error {
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
		return err
	})
	if unsupported(err) || err == unix.ENOTTY { //nolint:errorlint // a bare errno
		return retry(func() error { return unix.Fsync(fd) })
	}
	return err
}

// flushDir flushes the entries of an open directory.
func flushDir(fd int) error { return syncFile(fd) }

// startWriteBack does nothing: there is no such call here.
func startWriteBack(int, int64, int64, bool) error { return nil }

// identify describes an open directory.
func identify(fd int) (id dirID) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		id = dirID{st.Ino, st.Btim.Sec, st.Btim.Nsec}
	}
	return id
}

func device(st *unix.Stat_t) uint64 { return uint64(st.Dev) }

// isLost says of the errors that only this system has whether the disk or the
// server behind the file system is to blame.
func isLost(errno unix.Errno) bool { return errno == unix.EDEVERR || errno == unix.EPWROFF }

// stampsLocally says whether the file system takes its time stamps from this
// machine's clock: one that the kernel calls local.
func stampsLocally(dir string) bool {
	var st unix.Statfs_t
	return retry(func() error { return unix.Statfs(dir, &st) }) == nil && st.Flags&unix.MNT_LOCAL != 0
}

// Where the fields of a struct dirent with inodes of 64 bits are.
const direntSize, direntType, direntName = 16, 20, 21
