package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// told counts how often a connection is told of a deadline.
type told struct {
	net.Conn
	times int
}

func (c *told) SetReadDeadline(t time.Time) error {
	c.times++
	return c.Conn.SetReadDeadline(t)
}

// pipe is a conn above one end, and the other end.
func pipe(t *testing.T) (*conn, *told, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	inner := &told{Conn: near}
	return &conn{Conn: inner}, inner, far
}

// read tells how long a read waits, and how it ends.
func read(c net.Conn) (time.Duration, error) {
	began := time.Now()
	_, err := c.Read(make([]byte, 8))
	return time.Since(began), err
}

func TestReadDeadlines(t *testing.T) {
	t.Parallel()
	const short, long = 100 * time.Millisecond, 300 * time.Millisecond
	sequences := map[string]struct {
		set  []time.Duration // from now, 0 for none
		want time.Duration
	}{
		"one":            {[]time.Duration{short}, short},
		"a later one":    {[]time.Duration{short, long}, long},
		"a sooner one":   {[]time.Duration{long, short}, short},
		"none between":   {[]time.Duration{short, 0, long}, long},
		"sooner again":   {[]time.Duration{short, long, short + 50*time.Millisecond}, short + 50*time.Millisecond},
		"the past":       {[]time.Duration{long, -time.Hour}, 0},
		"past, then not": {[]time.Duration{-time.Hour, 0, short}, short},
	}
	for name, sequence := range sequences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, _ := pipe(t)
			now := time.Now()
			for _, d := range sequence.set {
				var at time.Time
				if d != 0 {
					at = now.Add(d)
				}
				if err := c.SetReadDeadline(at); err != nil {
					t.Fatal(err)
				}
			}
			if took, err := read(c); !errors.Is(err, os.ErrDeadlineExceeded) || took < sequence.want-20*time.Millisecond || took > sequence.want+2*time.Second {
				t.Errorf("%v after %v, want %v", err, took, sequence.want)
			}
		})
	}
}

// A deadline that is taken away while it is armed ends no read.
func TestNoReadDeadline(t *testing.T) {
	t.Parallel()
	c, _, far := pipe(t)
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_ = c.SetReadDeadline(time.Time{})
	go func() {
		time.Sleep(200 * time.Millisecond)
		_, _ = far.Write([]byte("here"))
	}()
	if took, err := read(c); err != nil || took < 100*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
}

// A read that waits is ended by a deadline that is set meanwhile.
func TestReadDeadlineWhileReading(t *testing.T) {
	t.Parallel()
	c, _, _ := pipe(t)
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	time.AfterFunc(100*time.Millisecond, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	if took, err := read(c); !errors.Is(err, os.ErrDeadlineExceeded) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func TestReadDeadlinesAreToldRarely(t *testing.T) {
	t.Parallel()
	c, inner, _ := pipe(t)
	for range 100 { // requests, as net/http does it
		for _, d := range []time.Duration{10 * time.Second, 0, 0, time.Minute, 0} {
			var at time.Time
			if d != 0 {
				at = time.Now().Add(d)
			}
			_ = c.SetReadDeadline(at)
		}
	}
	if inner.times != 1 {
		t.Errorf("told %d times", inner.times)
	}
}
