package server

import (
	"context"
	"errors"
	"net"
	"time"
)

// Server is bound to its address and serves once Run has it.
type Server struct {
	o        Options
	listener net.Listener
}

// Listen binds the address and loads the certificates, so that their errors
// come before the service starts. Close gives the address back if Run is never
// called.
func Listen(o Options) (*Server, error) {
	return nil, errors.New("not bound")
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server at once.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves on all servers until ctx ends or one of them fails; then all stop
// accepting and have the time drain to finish the requests they are in. It
// returns when everything has ended: nil after a clean end, an error when a
// server failed or requests were cut.
func Run(ctx context.Context, drain time.Duration, servers ...*Server) error {
	<-ctx.Done()
	return nil
}
