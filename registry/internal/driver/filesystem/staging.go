package filesystem

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// abandoned is the age from which on what another process left in the staging
// directory counts as left by a crash. A commit that is under way there for
// longer fails, which is no harm but to it.
const abandoned = 2 * time.Minute

// tempName returns a path in the staging directory that was never used before.
func (d *Driver) tempName() string {
	var b [20]byte
	return d.staging + "/" + d.instance + "-" + string(strconv.AppendUint(b[:0], d.counter.Add(1), 36)) + ".tmp"
}

// createTemp opens a new file in the staging directory, which it creates if
// need be, but only in the root that was opened.
func (d *Driver) createTemp() (name string, fd int, err error) {
	name = d.tempName()
	create := func() error {
		fd, err = open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		return err
	}
	if err := create(); !errors.Is(err, unix.ENOENT) || d.vanished() {
		return name, fd, err
	}
	if err := mkdir(d.staging); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", -1, err
	}
	return name, fd, create()
}

// writeTemp writes a file in the staging directory and leaves it open.
func (d *Driver) writeTemp(content []byte) (name string, fd int, err error) {
	if name, fd = d.spareFile(len(content)); fd < 0 {
		if name, fd, err = d.createTemp(); err != nil {
			return "", -1, err
		}
	}
	if _, err := writeAll(fd, content); err != nil {
		closeFD(fd)
		drop(name)
		return "", -1, err
	}
	return name, fd, nil
}

// writeBeside writes and flushes a file in the directory where it belongs, for
// trees that lie on another file system than the root: then nothing can be
// renamed out of the staging directory. Distribution 3 names such files alike.
func (d *Driver) writeBeside(name string, content []byte) error {
	temp := name + "." + path.Base(d.tempName())
	fd, err := open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if _, err = writeAll(fd, content); err == nil {
		err = syncFile(fd)
	}
	if err == nil {
		err = rename(temp, name)
	}
	if err != nil {
		drop(temp)
	}
	return err
}

// sweep deletes what crashed processes left in the staging directory; now is
// the file system's time.
func (d *Driver) sweep(now time.Time) {
	entries, err := os.ReadDir(d.staging)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := d.staging + "/" + e.Name()
		var st unix.Stat_t
		if strings.HasPrefix(e.Name(), d.instance) || unix.Lstat(name, &st) != nil {
			continue
		}
		// The change time, because a tree keeps its modification time when it
		// is moved here.
		if now.Sub(time.Unix(st.Ctim.Unix())) > abandoned {
			d.deleteForeign(name)
		}
	}
}

// deleteForeign takes a file or tree from the process that left it, and deletes
// it. That process may be alive after all and about to use it, and a directory
// must not be emptied then.
func (d *Driver) deleteForeign(name string) {
	mine := d.tempName()
	if rename(name, mine) == nil {
		drop(mine)
	}
}

// drop deletes a file or a tree of which nobody has to know whether that worked:
// what stays is private and swept later, or passed over by readers.
func drop(name string) {
	if errors.Is(unlink(name), unix.EISDIR) {
		os.RemoveAll(name) //nolint:errcheck // see above
	}
}
