package audit

import (
	"bufio"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func openSyslog(t *testing.T, where string) *remote {
	t.Helper()
	s, err := OpenSyslog(where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*remote)
}

var syslogLine = regexp.MustCompile(`^<38>\d{4}-\d\d-\d\dT\S+ \S+ registry\[\d+\]: \{"time":.*"event":"push".*\}\n$`)

func TestSyslog_Lines(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp := listen(t)
	l := New(zap.NewNop(), openSyslog(t, "udp://"+udp.LocalAddr().String()), openSyslog(t, "tcp://"+tcp.Addr().String()))
	l.Write(Record{Time: time.Now(), Event: "push", Who: "alice"})
	datagram := make([]byte, 64<<10)
	n, _, err := udp.ReadFrom(datagram)
	if err != nil || !syslogLine.Match(datagram[:n]) {
		t.Errorf("udp: %q, %v", datagram[:n], err)
	}
	conn, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !syslogLine.MatchString(line) {
		t.Errorf("tcp: %q, %v", line, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A syslog server that goes away and comes back gets lines again.
func TestSyslog_Reconnects(t *testing.T) {
	tcp := listen(t)
	s := openSyslog(t, "tcp://"+tcp.Addr().String())
	first, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	lines := make(chan string, 1)
	go func() {
		second, err := tcp.Accept()
		if err != nil {
			lines <- err.Error()
			return
		}
		line, _ := bufio.NewReader(second).ReadString('\n')
		lines <- line
	}()
	for range 1000 { // the kernel takes a line or two before it knows
		if _, err := s.Write([]byte("a line\n")); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-lines:
			if !strings.HasSuffix(line, ": a line\n") {
				t.Errorf("got %q", line)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("nothing came after the connection was closed")
}

// A syslog server that reads nothing costs one timeout, not one a line, and the end of the
// registry does not wait for it.
func TestSyslog_Stalled(t *testing.T) {
	tcp := listen(t)
	s := openSyslog(t, "tcp://"+tcp.Addr().String())
	s.timeout = 50 * time.Millisecond
	line := []byte(strings.Repeat("x", 1<<20) + "\n")
	var err error
	for range 1000 {
		if _, err = s.Write(line); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("a gigabyte was taken by nobody")
	}
	s.retryAt = time.Now().Add(time.Hour)
	if _, again := s.Write(line); again == nil || again.Error() != err.Error() {
		t.Errorf("the next line: %v", again)
	}
	l := New(zap.NewNop(), s)
	for range queueLength {
		l.Write(Record{Time: time.Now(), Event: "push"})
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("lost lines are not told: %v", err)
	}
}

// A line that is too long for a datagram is lost alone.
func TestSyslog_LongLine(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	s := openSyslog(t, "udp://"+udp.LocalAddr().String())
	if _, err := s.Write([]byte(strings.Repeat("x", 100<<10) + "\n")); err == nil {
		t.Error("a datagram of 100 KiB")
	}
	if _, err := s.Write([]byte("the next\n")); err != nil {
		t.Error(err)
	}
	datagram := make([]byte, 1<<10)
	n, _, err := udp.ReadFrom(datagram)
	if err != nil || !strings.HasSuffix(string(datagram[:n]), ": the next\n") {
		t.Errorf("%q, %v", datagram[:n], err)
	}
}
