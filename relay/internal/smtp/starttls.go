package smtp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"sync"
)

// startsTLS matches the commands that the library takes for STARTTLS.
var startsTLS = regexp.MustCompile(`(?i)^STARTTLS`)

var errPipelined = errors.New("commands came ahead of the TLS handshake")

// startTLS answers STARTTLS, and passes the connection on once it has TLS. The library would begin TLS itself, and then read addresses
// without a domain. For the new connection nothing has been said yet (RFC 3207, section 4.2). The error is always set: [io.EOF] if the
// connection was passed on.
func (c *commandConn) startTLS() error {
	if c.in.Buffered() > 0 { // what came in the clear must not count as secure
		return errPipelined
	}
	if _, err := io.WriteString(c.Conn, "220 2.0.0 Ready to start TLS\r\n"); err != nil {
		return err
	}
	secure := tls.Server(c.Conn, c.upgraded.config)
	if err := secure.Handshake(); err != nil { //nolint:noctx // deadlines of the connection end it
		return err
	}
	c.handedOver = true
	select {
	case c.upgraded.conns <- &commandConn{Conn: secure, in: bufio.NewReader(secure), begins: true, skipGreeting: true}:
		return io.EOF
	case <-c.upgraded.closed:
		c.handedOver = false
		return net.ErrClosed
	}
}

// tlsListener accepts the connections that have started TLS.
type tlsListener struct {
	net.Listener // for its address
	config       *tls.Config
	conns        chan net.Conn
	closed       chan struct{}
	close        sync.Once
}

func newTLSListener(l net.Listener, config *tls.Config) *tlsListener {
	return &tlsListener{Listener: l, config: config, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. The listener for the address is not closed.
func (l *tlsListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}
