package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// ExplainListen makes a sentence of an error of [Listen] that comes from a TCP
// address: the setting that holds it, what is wrong with it, and what to do. Any
// other error, such as that of a certificate's file, and nil, it returns as it is.
// The error stays in the chain.
func ExplainListen(err error, setting, addr string) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Net != "tcp" {
		return err
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s is in use by another program: stop that one, or choose another address (%w)", setting, addr, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %s is not an address of this machine; use 0.0.0.0 for all addresses (%w)", setting, addr, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: uid %d may not listen on %s: choose a port above 1023 (%w)", setting, os.Geteuid(), addr, err)
	}
	return err
}
