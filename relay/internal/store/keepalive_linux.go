package store

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dropDeaf gives up a connection whose other end takes nothing for some seconds.
func dropDeaf(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int((10 * time.Second).Milliseconds()))
	}); e != nil {
		return e
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOPROTOOPT) { // a Unix socket
		return nil
	}
	return err
}
