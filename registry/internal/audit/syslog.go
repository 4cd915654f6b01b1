package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

const (
	syslogTimeout = 5 * time.Second // of a connection, and of a line
	syslogRetry   = 5 * time.Second // after a failure; lines in between are lost at once

	// authInfo is the facility auth (4) and the severity info (6) of RFC 5424.
	authInfo = 4<<3 | 6
)

// OpenSyslog returns a sink that sends to syslog: "local", or a URL such as
// udp://log.example.org:514 or tcp://….
func OpenSyslog(where string) (io.WriteCloser, error) {
	s := &remote{timeout: syslogTimeout}
	if where == "local" {
		s.local = true
	} else {
		u, err := url.Parse(where)
		if err != nil {
			return nil, err
		}
		s.network, s.address = u.Scheme, u.Host
	}
	hostname, err := os.Hostname()
	if err == nil {
		err = s.dial()
	}
	s.hostname = hostname
	return s, err
}

// remote is a syslog server. One goroutine uses it.
type remote struct {
	local            bool
	network, address string
	hostname         string
	timeout          time.Duration
	conn             net.Conn // nil = has to be connected
	retryAt          time.Time
	failure          error // the last one
}

// localSockets are where syslog listens on the machine itself.
var localSockets = [...]string{"/dev/log", "/var/run/syslog", "/var/run/log"}

func (s *remote) dial() (err error) {
	d := net.Dialer{Timeout: s.timeout}
	if !s.local {
		s.conn, err = d.Dial(s.network, s.address)
		return err
	}
	err = errors.New("there is no syslog on this machine")
	for _, path := range localSockets {
		for _, network := range []string{"unixgram", "unix"} {
			if s.conn, err = d.Dial(network, path); err == nil {
				return nil
			}
		}
	}
	return err
}

// Write sends a line. A connection that the other end has closed is made again. After a
// failure nothing is tried for a while, so that nobody waits for every line.
func (s *remote) Write(line []byte) (n int, err error) {
	if time.Now().Before(s.retryAt) {
		return 0, s.failure
	}
	message := s.message(line, time.Now())
	for range 2 {
		if s.conn == nil {
			if err = s.dial(); err != nil {
				break
			}
		}
		if err = s.send(message); err == nil {
			return len(line), nil
		}
		if errors.Is(err, syscall.EMSGSIZE) { // too long for a datagram; others are not
			return 0, fmt.Errorf("syslog: %w", err)
		}
		s.conn.Close()
		s.conn = nil
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	s.failure, s.retryAt = fmt.Errorf("syslog: %w", err), time.Now().Add(syslogRetry)
	return 0, s.failure
}

func (s *remote) send(message []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(message)
	return err
}

// message is the line as RFC 3164 has it, in the form that syslog servers take from C
// libraries and from Go.
func (s *remote) message(line []byte, now time.Time) []byte {
	if s.local {
		return fmt.Appendf(nil, "<%d>%s registry[%d]: %s", authInfo, now.Format(time.Stamp), os.Getpid(), line)
	}
	return fmt.Appendf(nil, "<%d>%s %s registry[%d]: %s", authInfo, now.Format(time.RFC3339), cmp.Or(s.hostname, "localhost"), os.Getpid(), line)
}

// Close implements io.Closer.
func (s *remote) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
