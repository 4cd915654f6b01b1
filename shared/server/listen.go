package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// listen binds what the options ask for.
func listen(o Options) (net.Listener, error) {
	var config net.ListenConfig
	switch o.Network {
	case "", "tcp":
		return config.Listen(context.Background(), "tcp", o.Addr)
	case "unix":
		if err := removeStaleSocket(o.Addr); err != nil {
			return nil, err
		}
		return config.Listen(context.Background(), "unix", o.Addr)
	}
	return nil, fmt.Errorf("network %q is neither tcp nor unix", o.Network)
}

// removeStaleSocket removes the socket of a server that is gone. One that still
// answers, and a file that is no socket, are errors.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil //nolint:nilerr // there is nothing in the way, or Listen describes what
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("another process is already listening on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
