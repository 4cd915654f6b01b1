//go:build !linux

package server

import "net"

// limitUnsent does nothing: it is for Linux.
func limitUnsent(net.Conn) {}
