package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// pace is the least progress: need bytes of a body, or a slice of an answer, within
// the timeout.
type pace struct {
	timeout time.Duration
	need    int64
	slice   int
}

func newPace(stall time.Duration, rate int64) pace {
	need := max(1, int64(float64(rate)*stall.Seconds()))
	return pace{timeout: stall, need: need, slice: int(min(max(need, slice), 4<<20))}
}

// maxDiscard is the time a client gets at most to finish a body that the handler doesn't read.
// Within it net/http drops the rest and keeps the connection, after it the
// connection ends.
const maxDiscard = 5 * time.Second

// deadliner is implemented by net/http's own ResponseWriters.
type deadliner interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// paced makes bodies, and the answers of HTTP/2 streams, keep the pace. It must
// be the outermost handler. (Answers over HTTP/1 are held to it by conn, where
// sendfile is not lost.)
func paced(next http.Handler, p pace) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := w.(deadliner)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if r.ProtoMajor == 2 {
			s := &stream{ResponseWriter: w, deadliner: d, timeout: p.timeout}
			defer s.arm()
			w = s
		}
		if own := r.Body; own != nil && own != http.NoBody {
			b := &body{ReadCloser: own, deadliner: d, pace: p}
			defer func() {
				b.leave()
				r.Body = own // net/http waits for no body that the client was not told to send
			}()
			b.arm(time.Now())
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// body is a request's body whose client must keep the pace while the handler
// reads. The time between reads is the server's own and not counted.
type body struct {
	io.ReadCloser
	deadliner deadliner
	pace      pace
	armed     time.Time // when the deadline was set
	idle      time.Time // when the last Read returned
	got       int64     // since then
	ended     bool
	stalled   bool
}

// Read implements io.Reader. When the client is too slow the error is
// os.ErrDeadlineExceeded.
func (b *body) Read(p []byte) (int, error) {
	now := time.Now()
	switch most := b.pace.timeout / 4; {
	case b.got >= b.pace.need && now.Sub(b.armed) > most, now.Sub(b.idle) > most:
		b.arm(now)
	}
	n, err := b.ReadCloser.Read(p)
	b.got += int64(n)
	b.idle = time.Now()
	if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *body) arm(now time.Time) {
	b.armed, b.idle, b.got = now, now, 0
	_ = b.deadliner.SetReadDeadline(now.Add(b.pace.timeout)) // fails only on a closed connection
}

// end takes the deadline away at the end of the body, because net/http continues
// reading to see whether the client hangs up. A client that was too slow gets
// no more time at all.
func (b *body) end(err error) {
	b.ended = b.ended || errors.Is(err, io.EOF)
	b.stalled = errors.Is(err, os.ErrDeadlineExceeded)
	if b.ended {
		_ = b.deadliner.SetReadDeadline(time.Time{})
	}
}

// leave bounds the time for the rest that the handler did not read.
func (b *body) leave() {
	if !b.ended && !b.stalled {
		_ = b.deadliner.SetReadDeadline(time.Now().Add(min(b.pace.timeout/2, maxDiscard)))
	}
}

// stream is the ResponseWriter of an HTTP/2 stream, whose client can stop the
// flow of this one answer while the connection lives.
type stream struct {
	http.ResponseWriter
	deadliner deadliner
	timeout   time.Duration
	until     time.Time
}

// Write implements io.Writer, in pieces of which each gets its time. When the
// client is too slow the error is os.ErrDeadlineExceeded, as on a connection.
func (s *stream) Write(p []byte) (n int, err error) {
	const piece = 16 << 10
	for {
		s.arm()
		m, err := s.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		n += m
		if err != nil && !time.Now().Before(s.until) {
			err = fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
		}
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush implements http.Flusher.
func (s *stream) Flush() {
	s.arm()
	_ = http.NewResponseController(s.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stream) arm() {
	now := time.Now()
	if s.until.Sub(now) > s.timeout/2 {
		return
	}
	s.until = now.Add(s.timeout)
	_ = s.deadliner.SetWriteDeadline(s.until)
}
