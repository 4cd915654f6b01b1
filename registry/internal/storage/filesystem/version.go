package filesystem

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// # Versions
//
// A version is made of what the kernel says of a file: its inode, size and
// modification time. Time stamps come from a clock that stands still for up to a
// tick, 10 ms on the slowest kernels; some file systems keep whole seconds only, or
// two. A change that has just happened may be followed by another with the same
// time, so there is a version only once the clock has moved on since.
const (
	fineTick   = 20 * time.Millisecond
	coarseTick = 2100 * time.Millisecond
)

// version returns the token of a file or directory, "" while there is none. name
// is its path.
func (s *Store) version(name string, st *unix.Stat_t) string {
	tick := fineTick
	if st.Ctim.Nsec == 0 {
		tick = coarseTick
	}
	if !s.clock(name, device(st)).past(time.Unix(st.Ctim.Unix()), tick) {
		return ""
	}
	return token(st)
}

// token tells one state of a file or directory from another. Of a directory the change
// time counts, too, because anybody can set its modification time back; of a file it
// is that of all keys that share it, and changes when one of them goes.
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

// clock is the one by which a device stamps its files. Of one that another
// machine keeps it is known only that it has reached the latest stamp, and has
// gone on since that was seen.
type clock struct {
	local  bool
	latest atomic.Pointer[sighting]
}

type sighting struct{ stamp, at time.Time }

// clock returns that of the device, on which name lies.
func (s *Store) clock(name string, dev uint64) *clock {
	if d := s.device.Load(); d != nil && d.dev == dev {
		return d.clock
	}
	c, _ := s.clocks.LoadOrStore(dev, &clock{local: stampsLocally(name)})
	return c.(*clock)
}

// rootDevice is the device of the root, where mostly all lies.
type rootDevice struct {
	dev   uint64
	clock *clock
}

// past says whether the clock is certain to be at least tick behind stamp.
func (c *clock) past(stamp time.Time, tick time.Duration) bool {
	now := time.Now()
	if c.local {
		return now.Sub(stamp) >= tick
	}
	if l := c.latest.Load(); l != nil {
		if reached := l.stamp.Add(now.Sub(l.at)); !reached.Before(stamp) {
			return reached.Sub(stamp) >= tick
		}
	}
	c.latest.Store(&sighting{stamp, now})
	return false
}

// local says whether the root lies on this machine.
func (s *Store) local() bool {
	d := s.device.Load()
	if d == nil {
		var st unix.Stat_t
		if stat(s.rootDir(), &st) != nil {
			return true
		}
		d = &rootDevice{device(&st), s.clock(s.rootDir(), device(&st))}
		s.device.Store(d)
	}
	return d.clock.local
}

// Generation implements storage.Store. What is known of a directory of another
// machine may be a minute old, so it has none.
func (s *Store) Generation(_ context.Context, prefix string) string {
	name, err := s.abs("stat", prefix)
	var st unix.Stat_t
	if err != nil || stat(name, &st) != nil || !s.clock(name, device(&st)).local {
		return ""
	}
	return s.version(name, &st)
}
