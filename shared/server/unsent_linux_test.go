package server

import (
	"net"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Unsent bytes are limited only where HTTP/2 may be spoken, because the limit costs processor time.
func TestUnsentIsLimitedForHTTP2(t *testing.T) {
	t.Parallel()
	for http2, want := range map[bool]bool{true: true, false: false} {
		plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &listener{Listener: plain, pace: newPace(0, 0), http2: http2, crowd: newCrowd(1, zap.NewNop())}
		defer l.Close()
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*conn).Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if controlErr := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT) }); controlErr != nil || err != nil {
			t.Fatal(controlErr, err)
		}
		if (got == unsentBytes) != want {
			t.Errorf("HTTP/2 %v: %d unsent bytes", http2, got)
		}
	}
}
