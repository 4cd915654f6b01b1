package filesystem

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// A version is made of the kernel's description of a file: inode, size and modification
// time. The clock behind the time stands still for up to a tick: 10 ms on the slowest
// kernels, seconds on file systems that store no fractions. Until a tick has passed another
// change could have the same time, so there is no version yet.
const (
	fineTick   = 20 * time.Millisecond
	coarseTick = 2100 * time.Millisecond
)

// version returns the token of a file or directory, "" while there is none.
func version(st *unix.Stat_t) string {
	tick := fineTick
	if st.Ctim.Nsec == 0 {
		tick = coarseTick
	}
	if time.Since(time.Unix(st.Ctim.Unix())) < tick {
		return ""
	}
	return token(st)
}

// token tells one state of a file or directory from another. Anybody can set the
// modification time of a directory back, so there the change time counts, too.
func token(st *unix.Stat_t) string {
	var t [40]byte
	binary.NativeEndian.PutUint64(t[0:], device(st))
	binary.NativeEndian.PutUint64(t[8:], st.Ino)
	binary.NativeEndian.PutUint64(t[16:], uint64(st.Size))
	binary.NativeEndian.PutUint64(t[24:], uint64(st.Mtim.Nano()))
	if isDir(st) {
		binary.NativeEndian.PutUint64(t[32:], uint64(st.Ctim.Nano()))
	}
	return string(t[:])
}
