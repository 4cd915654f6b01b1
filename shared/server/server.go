package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"slipway/shared/filewatch"

	"go.uber.org/zap"
)

// Server is bound to its address and serves once Run has it.
type Server struct {
	name     string
	log      *zap.Logger
	http     http.Server
	listener net.Listener
	secure   bool
	requests atomic.Int64                  // in their handlers
	cut      context.CancelFunc            // ends the requests' contexts
	files    *filewatch.Value[*tls.Config] // nil without TLS
	issuer   *issuer                       // nil without ACME
}

// Listen binds the address and loads the certificates, so that their errors
// come before the service starts. Close gives the address back if Run is never
// called.
func Listen(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{name: o.Name, log: o.Log, secure: o.TLS != nil}
	if err := s.configure(o); err != nil {
		return nil, fmt.Errorf("%s server: %w", o.Name, err)
	}
	l, err := listen(o)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", o.Name, err)
	}
	s.listener = &listener{
		Listener: l, pace: newPace(o.StallTimeout, o.MinRate), http2: s.secure && !o.DisableHTTP2 || !s.secure && o.H2C,
		crowd: newCrowd(o.MaxConns, o.Log),
	}
	return s, nil
}

func (s *Server) configure(o Options) error {
	base, cancel := context.WithCancel(context.Background())
	s.cut = cancel
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.secure && !o.DisableHTTP2)
	protocols.SetUnencryptedHTTP2(!s.secure && o.H2C)
	s.http = http.Server{
		Handler:           s.counted(paced(o.Handler, newPace(o.StallTimeout, o.MinRate))),
		ReadHeaderTimeout: o.ReadHeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    o.MaxHeaderBytes,
		ErrorLog:          errorLog(o.Log),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withConn,
		Protocols:         &protocols,
	}
	if !s.secure {
		return nil
	}
	names := []string{"http/1.1"}
	if !o.DisableHTTP2 {
		names = []string{"h2", "http/1.1"}
	}
	config := &tls.Config{NextProtos: names}
	if o.TLS.ACME != nil {
		s.issuer = newIssuer(*o.TLS.ACME, o.Log)
		config.GetCertificate = s.issuer.certificate
	}
	files, err := openCertificates(*o.TLS, config, o.Log)
	if err != nil {
		return err
	}
	s.files = files
	current := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if s.issuer != nil && isChallenge(hello) {
			return s.issuer.challenge(), nil
		}
		return files.Get(), nil
	}
	s.http.TLSConfig = &tls.Config{GetConfigForClient: current, NextProtos: names, MinVersion: files.Last().MinVersion}
	return nil
}

// counted keeps the number of requests in their handlers, of the server and of each connection.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Add(-1)
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.requests.Add(1)
			defer c.requests.Add(-1)
		}
		next.ServeHTTP(w, r)
	})
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Reload reads the TLS files now. If they cannot be used, the former ones stay; the error, which is
// logged, has the reason.
func (s *Server) Reload() error {
	if s.files == nil {
		return nil
	}
	return s.files.Reload()
}

// Close ends the server immediately.
func (s *Server) Close() error {
	s.cut()
	return errors.Join(s.http.Close(), ignoreClosed(s.listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// serve returns nil once the server is stopped.
func (s *Server) serve() error {
	transport := ""
	if s.secure {
		transport = ", tls"
	}
	s.log.Info("listening on "+s.Addr().String()+transport, zap.String("server", s.name))
	var err error
	if s.issuer != nil {
		go s.issuer.obtain()
	}
	if s.secure {
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s server: %w", s.name, err)
}
