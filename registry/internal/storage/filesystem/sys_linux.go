package filesystem

import "golang.org/x/sys/unix"

// unlink removes a name; of a directory it says EISDIR.
func unlink(path string) error {
	return retry(func() error { return unix.Unlink(path) })
}

// renameNew is rename to a name that does not exist; EEXIST if it does. Some file systems
// do not know it.
func renameNew(from, to string) error {
	return retry(func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE) })
}

// syncFile flushes a file's bytes and what is needed to read them.
func syncFile(fd int) error { return retry(func() error { return unix.Fdatasync(fd) }) }

// flushDir flushes the entries of an open directory.
func flushDir(fd int) error { return retry(func() error { return unix.Fsync(fd) }) }

// startWriteBack asks for a part of a file to be written to the disk soon; with
// wait, to be there (which is no flush: neither the size nor the disk's own
// cache is dealt with). An error that it reports is not reported again by the
// flush, so it must not be forgotten. Systems that lack the call do without.
func startWriteBack(fd int, offset, size int64, wait bool) error {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	err := retry(func() error { return unix.SyncFileRange(fd, offset, size, flags) })
	if unsupported(err) {
		return nil
	}
	return err
}

// identify describes an open directory.
func identify(fd int) (id dirID) {
	var st unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st) })
	if err == nil {
		id = dirID{st.Ino, st.Btime.Sec, int64(st.Btime.Nsec)}
	}
	return id
}

func device(st *unix.Stat_t) uint64 { return st.Dev }

// isLost says of the errors that only this system has whether the disk or the
// server behind the file system is to blame.
func isLost(errno unix.Errno) bool {
	return errno == unix.ENOMEDIUM || errno == unix.EUCLEAN || errno == unix.EREMOTEIO
}

// Where the fields of a struct linux_dirent64 are.
const direntSize, direntType, direntName = 16, 18, 19
