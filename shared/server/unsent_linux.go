package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitUnsent has the kernel wake a writer whenever half of the given unsent bytes have left. It
// otherwise waits until a third of some MiB has, which a thin link does not manage within the
// deadline of an HTTP/2 stream. An error costs no more than that.
func limitUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}

const unsentBytes = 512 << 10
