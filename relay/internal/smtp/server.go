// Package smtp accepts email as messages. It relays none.
package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
	"go.uber.org/zap"

	"slipway/relay/internal/service"
)

const (
	maxRecipients = 20
	maxLine       = 64 << 10        // bytes; programs exist that write HTML in one line
	idleTime      = 5 * time.Minute // between two commands, and for a whole mail
	writeTime     = time.Minute
	acceptTime    = time.Minute // to store a mail
)

// Options configure a [Server].
type Options struct {
	Service *service.Service
	Log     *zap.Logger
	Domain  string // what the server calls itself
	// Certificate returns the certificate for STARTTLS; nil for none.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ImplicitTLS bool // TLS begins with the connection, in place of STARTTLS
	Plaintext   bool // tokens are taken without TLS, from other machines too
}

// Server receives email and accepts it as messages.
type Server struct {
	o        Options
	log      *zap.Logger
	servers  []*smtp.Server // one, and another for connections that have started TLS
	listener *listener
	ctx      context.Context
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

// Listen binds an address and begins to serve.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Log, listener: newListener(l)}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	accept := commandListener{Listener: s.listener}
	if o.Certificate == nil {
		s.serve(accept, nil)
		return s, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate}
	if o.ImplicitTLS {
		accept.Listener = tls.NewListener(s.listener, config)
		s.serve(accept, nil)
		return s, nil
	}
	accept.upgraded = newTLSListener(s.listener, config)
	s.serve(accept, config)
	s.serve(accept.upgraded, nil)
	return s, nil
}

// serve begins to serve a listener's connections. They are offered STARTTLS if config isn't nil.
func (s *Server) serve(l net.Listener, config *tls.Config) {
	server := smtp.NewServer(smtp.BackendFunc(s.session))
	server.Domain, server.MaxRecipients, server.EnableSMTPUTF8 = s.o.Domain, maxRecipients, true
	server.ReadTimeout, server.WriteTimeout = idleTime, writeTime
	server.MaxMessageBytes = int64(2*s.o.Service.MaxMessage()) + s.o.Service.MaxAttachments()*3/2
	server.AllowInsecureAuth = true // a session decides
	server.MaxLineLength = maxLine
	server.ErrorLog = errorLog{s.log}
	server.TLSConfig = config
	s.servers = append(s.servers, server)
	s.serving.Go(func() { _ = server.Serve(l) })
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close accepts no more email, waits a while for what is being received, and ends all connections.
func (s *Server) Close(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), within)
	defer cancel()
	s.listener.drain()
	var err error
	for _, server := range s.servers {
		err = errors.Join(err, server.Shutdown(ctx))
	}
	s.stop()
	s.listener.closeAll()
	s.serving.Wait()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, smtp.ErrServerClosed) {
		err = nil
	}
	return err
}

// errorLog passes on errors of connections, which hold neither addresses of emails nor tokens.
type errorLog struct{ log *zap.Logger }

// Printf implements [smtp.Logger].
func (e errorLog) Printf(format string, v ...any) {
	e.log.Debug("mail connection failed", zap.String("error", fmt.Sprintf(format, v...)))
}

// Println implements [smtp.Logger].
func (e errorLog) Println(v ...any) {
	e.log.Debug("mail connection failed", zap.String("error", fmt.Sprint(v...)))
}
