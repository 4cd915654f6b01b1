package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes the kernel holds that the client has not
// acknowledged.
func (c *conn) unsent() int64 {
	queue := int64(unknown)
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return queue
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return queue
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a closed connection
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			queue = int64(n)
		}
	})
	return queue
}
