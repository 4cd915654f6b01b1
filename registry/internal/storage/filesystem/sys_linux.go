package filesystem

import (
	"golang.org/x/sys/unix"
)

// renameNew renames to a name that doesn't exist. EEXIST if it does, or if the file system can't exclude that,
// like NFS.
func renameNew(from, to string) error {
	err := retry(func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE) })
	if unsupported(err) {
		return unix.EEXIST
	}
	return err
}

// syncFile flushes a file's bytes and what is needed to read them.
func syncFile(fd int) error { return retry(func() error { return unix.Fdatasync(fd) }) }

// syncVolume flushes the file system of an open file.
func syncVolume(fd int) error { return retry(func() error { return unix.Syncfs(fd) }) }

// startWriteBack asks for a part of a file to be written to the disk soon; with wait, it
// waits for that, which is no flush: the size and the disk's cache are left out. The flush
// doesn't repeat an error that this reports.
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

// setLock locks one byte of an open file for its open file description (F_WRLCK), or unlocks
// it. EAGAIN if another has it.
func setLock(fd int, n int64, kind int16) error {
	lock := unix.Flock_t{Type: kind, Start: n, Len: 1}
	return retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock) })
}

// dirID tells a directory from one that had its name before.
type dirID struct {
	ino  uint64
	sec  int64 // of its birth
	nsec uint32
}

// identify describes a directory.
func identify(dir string) (id dirID, err error) {
	var st unix.Statx_t
	err = retry(func() error {
		return unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	return dirID{st.Ino, st.Btime.Sec, st.Btime.Nsec}, err
}

func device(st *unix.Stat_t) uint64 { return st.Dev }

// isLost reports, of errors that only this system has, whether the disk or the server behind
// the file system failed.
func isLost(errno unix.Errno) bool {
	return errno == unix.ENOMEDIUM || errno == unix.EUCLEAN || errno == unix.EREMOTEIO
}

// isLocal reports whether the file system is on a disk or in memory of this machine.
func isLocal(dir string) bool {
	var st unix.Statfs_t
	if retry(func() error { return unix.Statfs(dir, &st) }) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1 // not in the kernel, so not in package unix
