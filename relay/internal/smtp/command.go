package smtp

import (
	"bufio"
	"bytes"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// commandListener accepts connections whose addresses may lack a domain.
type commandListener struct {
	net.Listener
	upgraded *tlsListener // gets the connections that ask for TLS; nil if there is none, or all have it
}

// Accept implements [net.Listener].
func (l commandListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(idleTime)) // for a handshake; each command sets its own
	return &commandConn{Conn: c, in: bufio.NewReader(c), upgraded: l.upgraded, begins: true}, nil
}

// commandConn is a connection that adds a domain to addresses without one, which the library refuses: cron sends from root to root.
type commandConn struct {
	net.Conn
	in           *bufio.Reader
	upgraded     *tlsListener
	left         []byte // of a line that was read
	begins       bool   // the next byte begins a line
	mail         bool   // lines are a mail's, up to a dot
	chunk        int64  // bytes of a mail that come before the next command
	skipGreeting bool   // the next line written is a greeting, which the client has had
	handedOver   bool   // another connection reads on
}

// NetConn returns the connection below.
func (c *commandConn) NetConn() net.Conn { return c.Conn }

// Read implements [net.Conn].
func (c *commandConn) Read(p []byte) (int, error) {
	if len(c.left) == 0 && c.chunk > 0 {
		n, err := c.in.Read(p[:min(int64(len(p)), c.chunk)])
		c.chunk -= int64(n)
		return n, err
	}
	if len(c.left) == 0 {
		line, err := c.in.ReadSlice('\n')
		if len(line) == 0 {
			return 0, err
		}
		c.left = line
		if whole := err == nil; c.begins && whole {
			if c.upgraded != nil && !c.mail && startsTLS.Match(line) {
				return 0, c.startTLS()
			}
			c.left = c.command(line)
		}
		c.begins = err == nil
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// bareAddress is a command with an address without a domain.
var bareAddress = regexp.MustCompile(`(?i)^((?:MAIL FROM|RCPT TO):)[ \t]*(?:<([^@<>"\s]+)>|([^@<>"\s]+))([ \t][^\r\n]*)?(\r?\n)$`)

// command returns a line as the library takes it.
func (c *commandConn) command(line []byte) []byte {
	if c.mail {
		c.mail = string(bytes.TrimRight(line, "\r\n")) != "."
		return line
	}
	verb, rest, _ := strings.Cut(string(bytes.TrimSpace(line)), " ")
	switch strings.ToUpper(verb) {
	case "BDAT":
		size, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n > 0 {
			c.chunk = n
		}
	case "MAIL", "RCPT":
		return bareAddress.ReplaceAll(line, []byte("$1<$2$3@localhost>$4$5"))
	}
	return line
}

// Write implements [net.Conn].
func (c *commandConn) Write(p []byte) (int, error) {
	if c.skipGreeting {
		c.skipGreeting = false
		return len(p), nil
	}
	if bytes.HasPrefix(p, []byte("354 ")) {
		c.mail = true
	}
	return c.Conn.Write(p)
}

// Close implements [net.Conn].
func (c *commandConn) Close() error {
	if c.handedOver {
		return nil
	}
	return c.Conn.Close()
}
