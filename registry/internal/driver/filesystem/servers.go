package filesystem

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Each server has a file in this directory of locks, and locks it. What is not
// locked was left by one that died.
const serversDir = "servers"

// Serve implements driver.Driver.
func (d *Driver) Serve(ctx context.Context) (leave func(), err error) {
	shared, err := d.waitForTurn(ctx)
	if err != nil {
		return nil, d.writeFault("serve", "/", err)
	}
	end, err := d.signIn()
	if err != nil {
		shared.drop()
		return nil, d.writeFault("serve", "/", err)
	}
	d.layIn()
	return func() {
		end()
		shared.drop()
	}, nil
}

// Servers hold this file locked together, who wants to be alone holds it alone,
// and while a server waits there is the other one.
const (
	turnName   = "alone"
	wantedName = "wanted"
)

// waitForTurn waits for who is alone, who makes haste when somebody waits.
func (d *Driver) waitForTurn(ctx context.Context) (locks, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		l, err := d.takeTurn()
		if err == nil {
			unlink(d.locks + "/" + wantedName) //nolint:errcheck // mostly not there
			return l, nil
		}
		if err == unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			var note int
			if note, err = d.private(wantedName); err == nil {
				closeFD(note)
			}
		}
		select {
		case <-time.After(pollGate):
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// takeTurn is EWOULDBLOCK while somebody is alone.
func (d *Driver) takeTurn() (locks, error) {
	fd, err := d.privateAs(turnName, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := lockFile(fd, unix.LOCK_SH); err != nil {
		return nil, err
	}
	root, err := d.lockRoot(unix.LOCK_SH)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return locks{fd, root}, nil
}

// signIn makes and locks the file of a server.
func (d *Driver) signIn() (leave func(), err error) {
	file := serversDir + "/" + d.tempBase()
	for range attempts {
		fd, err := d.privateAs(file, unix.O_RDONLY)
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err = retry(func() error { return unix.Flock(fd, unix.LOCK_SH) }); err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			closeFD(fd)
			return nil, err
		}
		if st.Nlink > 0 { // else somebody looked before it was locked
			return func() {
				unlink(d.locks + "/" + file) //nolint:errcheck // the next one who looks finds it unlocked
				closeFD(fd)
			}, nil
		}
		closeFD(fd)
	}
	return nil, unix.EBUSY
}

// Servers implements driver.Driver.
func (d *Driver) Servers(context.Context) (n int, err error) {
	dir := d.locks + "/" + serversDir
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) && !d.vanished() {
		return 0, nil
	}
	if err != nil {
		return 0, d.readFault("look for servers", "/", unix.EIO)
	}
	for _, e := range entries {
		if serves(dir + "/" + e.Name()) {
			n++
		}
	}
	return n, nil
}

// Crew implements driver.Driver. The token is made like that of Version. It
// does not ask whether the clock has moved on: who comes and goes within a tick
// has answered nobody.
func (d *Driver) Crew(context.Context) string {
	var st unix.Stat_t
	if d.statServers(&st) != nil {
		return ""
	}
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, 16), st.Ino)
	return string(binary.NativeEndian.AppendUint64(b, uint64(st.Ctim.Nano())))
}

// statServers describes the directory of servers as it is now. What this machine
// remembers of one that another machine keeps may be a minute old; opening asks that
// one (nfs(5), close-to-open).
func (d *Driver) statServers(st *unix.Stat_t) error {
	dir := d.locks + "/" + serversDir
	if d.localClock {
		return stat(dir, st)
	}
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return unix.Fstat(fd, st)
}

// serves says whether a server has the file locked. It removes one that no
// server has.
func serves(file string) bool {
	fd, err := open(file, unix.O_RDWR)
	if err != nil {
		return !isNotExist(err)
	}
	defer closeFD(fd)
	if retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }) != nil {
		return true
	}
	unlink(file) //nolint:errcheck // the next one finds it again
	return false
}
