package logging

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// AccessLog writes one line for each request in Apache's combined format, with
// secrets taken out of the request line and the referer. Give it a Buffer.
type AccessLog struct {
	w     io.Writer
	stamp atomic.Pointer[stamp]
	lines sync.Pool
}

// stamp is the formatted time of one second.
type stamp struct {
	second int64
	text   string
}

// NewAccessLog returns an access log that writes to w, one Write a line.
func NewAccessLog(w io.Writer) *AccessLog {
	return &AccessLog{w: w, lines: sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}}
}

func (a *AccessLog) write(rec *Recorder, r *http.Request) {
	line := a.lines.Get().(*[]byte)
	*line = a.appendLine((*line)[:0], rec, r)
	_, _ = a.w.Write(*line) // a broken access log can't be reported
	a.lines.Put(line)
}

func (a *AccessLog) appendLine(b []byte, rec *Recorder, r *http.Request) []byte {
	b = appendField(b, clientHost(r.RemoteAddr))
	b = append(b, " - "...)
	b = appendField(b, rec.user)
	b = append(b, " ["...)
	b = append(b, a.timestamp(rec.began)...)
	b = append(b, `] "`...)
	b = appendEscaped(b, r.Method)
	b = append(b, ' ')
	b = appendEscaped(b, RedactURI(r.RequestURI))
	b = append(b, ' ')
	b = appendEscaped(b, r.Proto)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(rec.Status()), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, rec.bytes, 10)
	b = append(b, ` "`...)
	b = appendEscaped(b, RedactURI(r.Referer()))
	b = append(b, `" "`...)
	b = appendEscaped(b, r.UserAgent())
	return append(b, "\"\n"...)
}

func (a *AccessLog) timestamp(t time.Time) string {
	if s := a.stamp.Load(); s != nil && s.second == t.Unix() {
		return s.text
	}
	s := &stamp{t.Unix(), t.Format("02/Jan/2006:15:04:05 -0700")}
	a.stamp.Store(s)
	return s.text
}

func clientHost(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// appendField writes a field that stands without quotes.
func appendField(b []byte, s string) []byte {
	if s == "" {
		return append(b, '-')
	}
	for i := range len(s) {
		if s[i] == ' ' {
			b = append(b, `\x20`...)
			continue
		}
		b = appendEscaped(b, s[i:i+1])
	}
	return b
}

// appendEscaped writes s as Apache does: quotes, backslashes and what cannot be
// printed are escaped, so that no client can forge a line.
func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
