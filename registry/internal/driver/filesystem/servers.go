package filesystem

import (
	"context"
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// Each server has a file in this directory of locks, and locks it. What is not
// locked was left by one that died.
const serversDir = "servers"

// Serve implements driver.Driver.
func (d *Driver) Serve(context.Context) (leave func(), err error) {
	file := serversDir + "/" + d.tempBase()
	for range attempts {
		fd, err := d.private(file)
		if err == nil {
			err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX) })
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			return nil, d.writeFault("serve", "/", err)
		}
		if st.Nlink > 0 { // else somebody looked before it was locked
			return func() {
				unlink(d.locks + "/" + file) //nolint:errcheck // the next one who looks finds it unlocked
				closeFD(fd)
			}, nil
		}
		closeFD(fd)
	}
	return nil, d.writeFault("serve", "/", unix.EBUSY)
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
	if stat(d.locks+"/"+serversDir, &st) != nil {
		return ""
	}
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, 16), st.Ino)
	return string(binary.NativeEndian.AppendUint64(b, uint64(st.Ctim.Nano())))
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
