package filesystem

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// # A full volume
//
// What frees a volume needs a little room itself: a collector of garbage moves
// what it takes into directories of its own, and locks files. So while there is
// room the files are made, and directories are laid in, of which only the
// collector takes, by renaming them to where it needs them: nobody who pushes
// can get there first. Where there is not even that, on a full volume that no
// server of ours has ever had, the root directory is locked in place of the files.

// The reserve is directories in the directory of locks. 256 are a megabyte on
// ext4.
const (
	reserveDir  = "reserve"
	reserveSize = 256
)

// layIn makes, as far as there is room, what a collector needs on a full volume.
func (d *Driver) layIn() {
	if d.vanished() {
		return
	}
	for _, name := range []string{collectorName, turnName, epochName, gateNames[0], gateNames[1]} {
		fd, err := d.privateAs(name, unix.O_RDONLY)
		if err != nil {
			return
		}
		closeFD(fd)
	}
	d.reserving.Lock()
	defer d.reserving.Unlock()
	dir := d.locks + "/" + reserveDir
	_ = mkdir(dir) // if it is not there it shows below
	entries, err := os.ReadDir(dir)
	for n := len(entries); err == nil && n < d.spareRoom(n); n++ {
		err = mkdir(dir + "/" + d.tempBase())
	}
}

// spareRoom is for how many directories there is room to spare where n are laid
// in: on a small volume an eighth of what is free.
func (d *Driver) spareRoom(n int) int {
	var st unix.Statfs_t
	if retry(func() error { return unix.Statfs(d.rootDir(), &st) }) != nil {
		return 0
	}
	room := uint64(reserveSize)
	if st.Blocks > 0 {
		room = min(room, (st.Bavail+uint64(n))/8)
	}
	if st.Files > 0 { // else the file system makes inodes as it needs them
		room = min(room, (st.Ffree+uint64(n))/8)
	}
	return int(room)
}

// makeFromReserve makes a directory and those above it, of the reserve.
func (d *Driver) makeFromReserve(dir string) error {
	var st unix.Stat_t
	if stat(dir, &st) == nil {
		return nil
	}
	if dir == d.rootDir() {
		return unix.ENOENT
	}
	if err := d.makeFromReserve(path.Dir(dir)); err != nil {
		return err
	}
	d.reserving.Lock()
	defer d.reserving.Unlock()
	from := d.locks + "/" + reserveDir
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := rename(from+"/"+e.Name(), dir); !isNotExist(err) { // another process may have taken it
			d.durable.forget(dir)
			return err
		}
	}
	return unix.ENOSPC
}

// inDirAnyhow is inDir that takes of the reserve if there is no room.
func (d *Driver) inDirAnyhow(name string, do func() error) error {
	err := d.inDir(name, do)
	for i := 0; i < attempts && isFull(err); i++ {
		if d.makeFromReserve(path.Dir(name)) != nil {
			return err
		}
		if err = do(); isNotExist(err) {
			err = unix.ENOSPC // somebody tidied it away
		}
	}
	return err
}

// lockRoot locks the root directory, LOCK_SH or LOCK_EX, and says EWOULDBLOCK if
// that cannot be now. Where directories have no locks, and where other machines
// would not see them, fd is -1.
func (d *Driver) lockRoot(how int) (fd int, err error) {
	if !d.localClock {
		return -1, nil
	}
	if fd, err = open(d.rootDir(), unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return -1, err
	}
	err = retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if err == nil {
		return fd, nil
	}
	closeFD(fd)
	if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
		err = nil
	}
	return -1, err
}
