package filesystem

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Time stamps come from a clock that stands still for up to a tick, 10 ms on
// the slowest kernels; some file systems keep whole seconds only, or two.
const (
	fineTick   = 20 * time.Millisecond
	coarseTick = 2100 * time.Millisecond
)

// Version implements driver.Driver. It is made of the inode's identity and its
// change time, which unlike the modification time nobody can set back. A change
// that has just happened may be followed by another with the same time, so the
// token is good only when the clock has moved on since. That needs the clock of
// the file system; on a file system of another machine it cannot tell.
func (d *Driver) Version(_ context.Context, path string) (string, bool) {
	name, err := d.abs("stat", path)
	if err != nil {
		return "", false
	}
	now := time.Now()
	var st unix.Stat_t
	if stat(name, &st) != nil || !d.localClock || device(&st) != d.identity.dev {
		return "", false
	}
	tick := fineTick
	if st.Ctim.Nsec == 0 {
		tick = coarseTick
	}
	if now.Sub(time.Unix(st.Ctim.Unix())) < tick {
		return "", false
	}
	var token [24]byte
	binary.NativeEndian.PutUint64(token[0:], st.Ino)
	binary.NativeEndian.PutUint64(token[8:], uint64(st.Ctim.Sec))
	binary.NativeEndian.PutUint64(token[16:], uint64(st.Ctim.Nsec))
	return string(token[:]), true
}
