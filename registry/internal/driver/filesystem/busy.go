package filesystem

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// busyName is a file whose time of change is when a request was last under way.
const busyName = "busy"

// busyFor is for how long after that servers count as busy: longer than they
// take between two notes.
const busyFor = time.Second

// Requested implements driver.Driver. Where the note cannot be made nobody is
// told: on a storage that is read-only or full.
func (d *Driver) Requested(context.Context) {
	now := stampNow()
	touch := func() error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, d.locks+"/"+busyName, []unix.Timespec{now, now}, 0)
	}
	if !isNotExist(retry(touch)) {
		return
	}
	if fd, err := d.privateAs(busyName, unix.O_RDONLY); err == nil {
		closeFD(fd)
	}
}

// Busy implements driver.Driver.
func (d *Driver) Busy(context.Context) bool {
	var st unix.Stat_t
	if stat(d.locks+"/"+busyName, &st) != nil {
		return false
	}
	since := d.Now().Sub(time.Unix(st.Mtim.Unix()))
	return since.Abs() < busyFor
}
