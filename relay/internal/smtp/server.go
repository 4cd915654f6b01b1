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
	MaxText int    // bytes of a mail's text
	// Certificate returns the certificate for STARTTLS; nil for none.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ImplicitTLS bool // TLS begins with the connection, in place of STARTTLS
	Plaintext   bool // tokens are taken without TLS, from other machines too
}

// Server receives email and accepts it as messages.
type Server struct {
	o        Options
	log      *zap.Logger
	smtp     *smtp.Server
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
	s.smtp = smtp.NewServer(smtp.BackendFunc(s.session))
	s.smtp.Domain, s.smtp.MaxRecipients, s.smtp.EnableSMTPUTF8 = o.Domain, maxRecipients, true
	s.smtp.ReadTimeout, s.smtp.WriteTimeout = idleTime, writeTime
	s.smtp.MaxMessageBytes = int64(2*o.MaxText) + o.Service.MaxAttachments()*3/2
	s.smtp.AllowInsecureAuth = true // a session decides
	s.smtp.MaxLineLength = maxLine
	s.smtp.ErrorLog = errorLog{o.Log}
	var accept net.Listener = s.listener
	if o.Certificate != nil {
		config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate}
		if o.ImplicitTLS {
			accept = tls.NewListener(s.listener, config)
		} else {
			s.smtp.TLSConfig = config
		}
	}
	accept = commandListener{accept}
	s.serving.Go(func() { _ = s.smtp.Serve(accept) })
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close accepts no more email, waits a while for what is being received, and ends all connections.
func (s *Server) Close(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), within)
	defer cancel()
	s.listener.drain()
	err := s.smtp.Shutdown(ctx)
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
