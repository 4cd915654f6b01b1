package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// taken returns the number of bytes that the client's machine has acknowledged since the connection
// began; 0 if that is not known. A write does not tell: the kernel wakes a writer only
// when a good part of its queue has left, which on a thin link takes minutes.
func taken(c net.Conn) (bytes int64) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			bytes = int64(info.Bytes_acked)
		}
	})
	return bytes
}
