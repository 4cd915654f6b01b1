package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// writeMore is Write of bytes that more will follow at once (MSG_MORE, send(2)):
// the kernel keeps them for a moment.
func (c *conn) writeMore(p []byte) (n int, err error) {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return c.Conn.Write(p)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	var sent error
	err = raw.Write(func(fd uintptr) (done bool) {
		n, sent = sendMore(int(fd), p, n)
		return !errors.Is(sent, unix.EAGAIN)
	})
	if err == nil {
		err = sent
	}
	return n, err
}

// sendMore goes on from n.
func sendMore(fd int, p []byte, n int) (int, error) {
	for n < len(p) {
		m, err := unix.SendmsgN(fd, p[n:], nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		if err == nil {
			n += m
		} else if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
	return n, nil
}
