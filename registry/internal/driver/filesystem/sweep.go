package filesystem

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Each process has a file "<instance>.lock" in the staging directory and holds
// a lock (flock) on it while it lives, so that the next one knows at once what
// a crash has left.

// abandoned is the age from which on something counts as left by a crash where
// there is no lock to tell. A commit that is under way there for longer fails,
// which is no harm but to it.
const abandoned = 2 * time.Minute

// makeStaging makes the staging directory, if need be, and locks this driver's
// part of it.
func (d *Driver) makeStaging() error {
	if err := mkdir(d.staging); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for range attempts {
		fd, err := open(d.lockName(d.instance), unix.O_RDONLY|unix.O_CREAT) // see privateAs
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = retry(func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
		if errors.Is(err, unix.EWOULDBLOCK) || unix.Fstat(fd, &st) != nil || st.Nlink == 0 {
			closeFD(fd) // somebody sweeps it, in the moment before it was locked
			continue
		}
		if old := d.locked.Swap(int64(fd)); old >= 0 {
			closeFD(int(old))
		}
		return nil
	}
	return unix.EAGAIN
}

// leaveStaging gives the lock back and deletes its file.
func (d *Driver) leaveStaging() {
	if fd := d.locked.Swap(-1); fd >= 0 {
		drop(d.lockName(d.instance))
		closeFD(int(fd))
	}
}

func (d *Driver) lockName(instance string) string { return d.staging + "/" + instance + lockSuffix }

const lockSuffix = ".lock"

// tryLock locks a file. EWOULDBLOCK says that another process has, any other
// error that the file system has no locks.
func tryLock(fd int) error {
	return retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
}

// Sweep implements driver.Driver.
func (d *Driver) Sweep(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.sweep(time.Now())
	return nil
}

// sweep deletes what crashed processes left in the staging directory; now is
// the file system's time.
func (d *Driver) sweep(now time.Time) {
	byInstance := map[string][]string{}
	d.listForeign(d.staging, d.staging+"/", byInstance)
	d.listForeign(d.rootDir(), d.staging+"-", byInstance) // see stage
	for instance, names := range byInstance {
		d.sweepInstance(instance, names, now)
	}
}

// listForeign adds what other instances have in dir and begins with prefix.
func (d *Driver) listForeign(dir, prefix string, byInstance map[string][]string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		rest, ok := strings.CutPrefix(name, prefix)
		instance, _, _ := strings.Cut(strings.TrimSuffix(rest, lockSuffix), "-")
		if ok && instance != d.instance {
			byInstance[instance] = append(byInstance[instance], name)
		}
	}
}

// sweepInstance holds the lock of a dead instance while it deletes what is its,
// the file of the lock last.
func (d *Driver) sweepInstance(instance string, names []string, now time.Time) {
	lock := d.lockName(instance)
	fd, err := open(lock, unix.O_RDWR)
	if err == nil {
		defer closeFD(fd)
		err = tryLock(fd)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return // it lives, or another process is sweeping
	}
	dead := err == nil
	for _, name := range names {
		if name != lock && (dead || d.isOld(name, now)) {
			d.deleteForeign(name)
		}
	}
	if dead || d.isOld(lock, now) {
		drop(lock)
	}
}

// isOld goes by the change time, because a tree keeps its modification time
// when it is moved here.
func (d *Driver) isOld(name string, now time.Time) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && now.Sub(time.Unix(st.Ctim.Unix())) > abandoned
}

// deleteForeign takes a file or tree from the process that left it, and deletes
// it. Without a lock that process may be alive after all and about to use it,
// and a directory must not be emptied then.
func (d *Driver) deleteForeign(name string) {
	mine := d.tempName()
	if rename(name, mine) == nil {
		drop(mine)
	}
}
