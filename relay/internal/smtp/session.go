package smtp

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
)

// session is a connection. A mail's application is that of the login, or of the token in the recipient's address.
type session struct {
	s    *Server
	conn *smtp.Conn
	host string // address of the client

	login, token string       // the token that has logged in, "" for none; the one of the mail under way
	user, app    *account.App // theirs
}

func (s *Server) session(c *smtp.Conn) (smtp.Session, error) {
	host, _, err := net.SplitHostPort(c.Conn().RemoteAddr().String())
	return &session{s: s, conn: c, host: host}, err
}

var (
	errNeedsTLS  = &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Must issue a STARTTLS command first"}
	errNotHere   = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such recipient here: log in, or write to TOKEN@ this host"}
	errOneApp    = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 5, 3}, Message: "One application a mail: send another mail to this recipient"}
	errMechanism = &smtp.SMTPError{Code: 504, EnhancedCode: smtp.EnhancedCode{5, 5, 4}, Message: "Only PLAIN and LOGIN are supported"}
	errTooMany   = &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "Too many wrong tokens came from this address"}
	errBusy      = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "The mail cannot be stored now: try again"}
)

// private reports whether a token may be sent: over TLS, or from this machine, or where the settings allow it.
func (s *session) private() bool {
	ip := net.ParseIP(s.host)
	return secure(s.conn.Conn()) || s.s.o.Plaintext || ip != nil && ip.IsLoopback()
}

// AuthMechanisms implements [smtp.AuthSession].
func (s *session) AuthMechanisms() []string {
	if !s.private() {
		return nil
	}
	return []string{sasl.Plain, sasl.Login}
}

// Auth implements [smtp.AuthSession]. The token is the password; the name is ignored.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	switch {
	case !s.private():
		return nil, errNeedsTLS
	case mechanism == sasl.Plain:
		return sasl.NewPlainServer(func(_, _, password string) error { return s.authenticate(password) }), nil
	case mechanism == sasl.Login:
		return &loginServer{authenticate: s.authenticate}, nil
	}
	return nil, errMechanism
}

func (s *session) authenticate(password string) error {
	app, err := s.sender(password)
	if err != nil {
		var e *smtp.SMTPError
		if errors.As(err, &e) && e == errNotHere {
			return smtp.ErrAuthFailed
		}
		return err
	}
	s.login, s.user = password, app
	return nil
}

// sender returns the application of a token. Guesses become slow, as over HTTP.
func (s *session) sender(token string) (*account.App, error) {
	app, err := s.s.o.Service.Sender(s.s.ctx, token)
	if err == nil {
		err = app.MaySend()
	}
	switch kind := refusal.KindOf(err); {
	case err == nil:
		if c := accepted(s.conn.Conn()); c != nil {
			c.proven.Store(true)
		}
		return app, nil
	case kind == refusal.KindUnauthorized && token != "":
		wait := s.s.o.Service.WrongToken(s.host)
		if wait == 0 {
			return nil, errNotHere
		}
		select {
		case <-time.After(min(wait, time.Second)):
		case <-s.s.ctx.Done():
		}
		return nil, errTooMany
	case kind == refusal.KindUnauthorized:
		return nil, errNotHere
	}
	return nil, s.refused(err)
}

// Mail implements [smtp.Session].
func (s *session) Mail(string, *smtp.MailOptions) error {
	s.token, s.app = s.login, s.user
	return nil
}

// Rcpt implements [smtp.Session].
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.login != "" { // any recipient: the mail goes to the application's room
		s.token, s.app = s.login, s.user
		return nil
	}
	if !s.private() {
		return errNeedsTLS
	}
	token, _, _ := strings.Cut(to, "@")
	token = token[strings.LastIndexByte(token, '+')+1:]
	app, err := s.sender(token)
	if err != nil {
		return err
	}
	if s.token != "" && app.ID != s.app.ID {
		return errOneApp
	}
	s.token, s.app = token, app
	return nil
}

// Reset implements [smtp.Session].
func (s *session) Reset() { s.token = "" }

// Logout implements [smtp.Session].
func (s *session) Logout() error { return nil }

// Data implements [smtp.Session].
func (s *session) Data(r io.Reader) error {
	if c := accepted(s.conn.Conn()); c != nil {
		c.busy.Store(true)
		defer c.busy.Store(false)
	}
	ctx, cancel := context.WithTimeout(s.s.ctx, idleTime+acceptTime)
	defer cancel()
	return s.refused(s.accept(ctx, r))
}

// refused returns what a sender is told of an error.
func (s *session) refused(err error) error {
	if err == nil {
		return nil
	}
	var told *smtp.SMTPError
	if errors.As(err, &told) {
		return told
	}
	var e *refusal.Error
	if !errors.As(err, &e) {
		s.s.log.Error("a mail cannot be stored", zap.Error(err))
		return errBusy
	}
	out := &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: e.Message}
	switch e.Kind {
	case refusal.KindTooLarge:
		out.Code, out.EnhancedCode = 552, smtp.EnhancedCode{5, 3, 4}
	case refusal.KindForbidden, refusal.KindUnauthorized:
		out.Code, out.EnhancedCode = 550, smtp.EnhancedCode{5, 7, 1}
	case refusal.KindRateLimited, refusal.KindUnavailable, refusal.KindTimeout, refusal.KindInternal:
		out.Code, out.EnhancedCode = 451, smtp.EnhancedCode{4, 3, 0}
	}
	s.s.log.Info("message refused", zap.String("source", source), zap.Error(e))
	return out
}

// loginServer is the mechanism LOGIN, which is all that many devices know.
type loginServer struct {
	authenticate func(password string) error
	asked, named bool
}

// Next implements [sasl.Server].
func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case !l.asked && response == nil:
		l.asked = true
		return []byte("Username:"), false, nil
	case !l.named: // some send the name with the command
		l.asked, l.named = true, true
		return []byte("Password:"), false, nil
	}
	return nil, true, l.authenticate(string(response))
}
