package filesystem

import (
	"context"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

const collectorName = "collector"

// locks are files held locked by being open.
type locks []int

func (l locks) drop() {
	for _, fd := range l {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// lockFile locks the file, or closes it. EWOULDBLOCK if that cannot be now.
func lockFile(fd, how int) error {
	err := retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if err != nil {
		closeFD(fd)
	}
	return err
}

// lockAlone opens a file and locks it for nobody else.
func (d *Driver) lockAlone(name string) (fd int, err error) {
	if fd, err = d.private(name); err != nil {
		return -1, err
	}
	return fd, lockFile(fd, unix.LOCK_EX)
}

// Lock implements driver.Driver.
func (d *Driver) Lock(context.Context) (unlock func(), err error) {
	held, err := d.lockCollector()
	//nolint:errorlint // a bare errno
	switch err {
	case nil:
		return func() {
			d.layIn()
			d.mu.Lock()
			defer d.mu.Unlock()
			d.sole.drop()
			d.sole = nil
			held.drop()
		}, nil
	case unix.EWOULDBLOCK:
		return nil, &fault{"collect", "/", driver.ErrBusy, nil}
	}
	return nil, d.writeFault("collect", "/", err)
}

// lockCollector locks the file, and the root with others; or the root alone
// where there is no room for a file.
func (d *Driver) lockCollector() (locks, error) {
	fd, err := d.lockAlone(collectorName)
	if isFull(err) {
		root, busy := d.lockRoot(unix.LOCK_EX)
		if busy != nil || root < 0 {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sole = locks{root}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	root, err := d.lockRoot(unix.LOCK_SH)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return locks{fd, root}, nil
}

// Alone implements driver.Driver.
func (d *Driver) Alone(context.Context) (wanted func() bool, release func(), err error) {
	turn, err := d.lockAlone(turnName)
	if isFull(err) && d.ownsRoot() {
		turn, err = -1, nil
	}
	switch {
	case err == unix.EWOULDBLOCK: //nolint:errorlint // a bare errno
		return nil, nil, &fault{"collect", "/", driver.ErrBusy, nil}
	case err != nil:
		return nil, nil, d.writeFault("collect", "/", err)
	}
	unlink(d.locks + "/" + wantedName) //nolint:errcheck // of one that died; who waits makes it again
	wanted = func() bool {
		var st unix.Stat_t
		return stat(d.locks+"/"+wantedName, &st) == nil
	}
	return wanted, func() {
		d.shareRoot()
		locks{turn}.drop()
	}, nil
}

// ownsRoot says whether Lock holds the root in place of a file.
func (d *Driver) ownsRoot() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sole != nil
}

// shareRoot lets servers in, if there is room for the file by now: without it
// another collector might come as well, and they wait until this one ends.
func (d *Driver) shareRoot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sole) != 1 {
		return
	}
	fd, err := d.lockAlone(collectorName)
	if err != nil {
		return
	}
	_ = retry(func() error { return unix.Flock(d.sole[0], unix.LOCK_SH|unix.LOCK_NB) }) // nobody has it
	d.sole = append(d.sole, fd)
}
