package server

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// impatient cuts clients off after 400 ms below 10 kB/s.
func impatient(h http.HandlerFunc) Options {
	return Options{Handler: h, StallTimeout: 400 * time.Millisecond, MinRate: 10_000, ReadHeaderTimeout: 300 * time.Millisecond, IdleTimeout: 10 * time.Second}
}

func TestSlowHeadersAreCut(t *testing.T) {
	t.Parallel()
	s := serve(t, impatient(hello))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n")
	go func() {
		for {
			if _, err := io.WriteString(c, "X-Drip: 1\r\n"); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	endsWithin(t, c, 2*time.Second)
}

func TestHeaderTooLarge(t *testing.T) {
	s := serve(t, Options{Handler: http.HandlerFunc(hello), MaxHeaderBytes: 8 << 10})
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+longHeader(20<<10)+"\r\n\r\n")
	if status, _ := answer(t, c); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", status)
	}
}

func TestDrippingBodyIsCut(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	s := serve(t, impatient(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		got <- err
		w.WriteHeader(http.StatusRequestTimeout)
	}))
	c := dial(t, s)
	send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		for { // 200 bytes a second
			if _, err := io.WriteString(c, "xxxxxxxxxx"); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	select {
	case err := <-got:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the handler saw %v", err)
		}
	case <-time.After(3 * time.Second):
		t.Fatal("the body drips on")
	}
	if text := endsWithin(t, c, 2*time.Second); !strings.HasPrefix(text, "HTTP/1.1 408") {
		t.Errorf("answer %q", text)
	}
}

func TestSlowButLivingBodySurvives(t *testing.T) {
	t.Parallel()
	o := impatient(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	o.StallTimeout = 1500 * time.Millisecond
	atPace(t, func() error {
		c := dial(t, serve(t, o))
		const pieces, piece = 60, 4000 // 40 kB/s for 6 s, four times StallTimeout
		send(t, c, fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces*piece))
		for range pieces {
			if _, err := io.WriteString(c, strings.Repeat("x", piece)); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != fmt.Sprint(pieces*piece, nil) {
			err = fmt.Errorf("got %q", body)
		}
		return err
	})
}

// atPace runs try, which fails if the machine doesn't let it act in time. Then it is run again: if 20 ticks of 10 ms took three times
// as long, the client was slower than the test means it to be.
func atPace(t *testing.T, try func() error) {
	t.Helper()
	for range 5 {
		done, slowest := make(chan struct{}), make(chan time.Duration)
		go func() {
			ticks := slices.Repeat([]time.Time{time.Now()}, 20)
			var worst time.Duration
			for i := 0; ; i++ {
				ended := false
				select {
				case <-done:
					ended = true
				case <-time.After(10 * time.Millisecond):
				}
				tick := &ticks[i%len(ticks)]
				worst = max(worst, time.Since(*tick))
				*tick = time.Now()
				if ended {
					slowest <- worst
					return
				}
			}
		}()
		err := try()
		close(done)
		took := <-slowest
		if err == nil {
			return
		}
		if took < 600*time.Millisecond {
			t.Fatal(err)
		}
		t.Logf("again, because 200 ms took %s: %v", took, err)
	}
	t.Fatal("the machine is too slow")
}

func TestSlowServerIsNotTheClientsFault(t *testing.T) {
	t.Parallel()
	s := serve(t, impatient(func(w http.ResponseWriter, r *http.Request) {
		var first [1]byte
		_, _ = io.ReadFull(r.Body, first[:])
		time.Sleep(900 * time.Millisecond) // a disk that takes its time
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	c := dial(t, s)
	body := strings.Repeat("x", 100_000)
	go io.WriteString(c, fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if _, got := answer(t, c); got != fmt.Sprint(len(body)-1, nil) {
		t.Errorf("got %q", got)
	}
}

func TestLongAnswerAfterABody(t *testing.T) {
	t.Parallel()
	// The deadline of a body must be gone when it ends: net/http then reads on
	// to see a hang-up, and a timeout there would end the request's context.
	s := serve(t, impatient(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
			fmt.Fprint(w, "cancelled")
		case <-time.After(600 * time.Millisecond):
			fmt.Fprint(w, "done")
		}
	}))
	c := dial(t, s)
	for range 2 {
		send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
		if _, body := answer(t, c); body != "done" {
			t.Errorf("got %q", body)
		}
	}
}

func TestRefusedBodyDoesNotHoldTheAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, impatient(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	c := dial(t, s)
	send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
	if text := endsWithin(t, c, 2*time.Second); !strings.HasPrefix(text, "HTTP/1.1 401") {
		t.Errorf("answer %q", text)
	}
}

const blobSize = 48 << 20

// blob is no two blocks of which are alike.
var blob = sync.OnceValue(func() []byte {
	b := make([]byte, 0, blobSize)
	for i := uint64(0); len(b) < blobSize; i++ {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	return b
})

// plainReader hides that a file is one.
type plainReader struct{ io.Reader }

// download asks for a file and returns the connection after the request, and
// what the handler's copy will say.
func download(t *testing.T, way string, stall time.Duration) (net.Conn, chan error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "blob")
	if err := os.WriteFile(path, blob(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	o := impatient(func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		var src io.Reader = f
		if way == "buffer" {
			src = plainReader{f}
		}
		w.Header().Set("Content-Length", fmt.Sprint(blobSize))
		_, err = io.Copy(w, src)
		got <- err
	})
	o.StallTimeout = stall
	if way == "tls" {
		cert, key := newPair(t, "x").save(t, dir, "server")
		o.TLS = &TLS{Certificate: cert, Key: key}
	}
	c := dial(t, serve(t, o))
	_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
	if way == "tls" {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	return c, got
}

// ways are the paths that an answer takes through conn.
var ways = []string{"file", "buffer", "tls"}

func TestAnswerNobodyTakesIsCut(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			_, got := download(t, way, 400*time.Millisecond)
			select {
			case err := <-got:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the handler saw %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the answer still waits for its client")
			}
		})
	}
}

// The client of an HTTP/2 stream can stop the flow of one answer.
func TestStreamNobodyTakesIsCut(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	o := impatient(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 32<<20))
		got <- err
	})
	o.H2C = true
	s := serve(t, o)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	resp, err := client.Get("http://" + s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	select {
	case err := <-got:
		if !errors.Is(err, os.ErrDeadlineExceeded) || resp.ProtoMajor != 2 {
			t.Errorf("HTTP/%d: the handler saw %v", resp.ProtoMajor, err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the answer still waits for its client")
	}
}

// thinLink reads at about 1 MB/s for a while, and then as fast as it can.
type thinLink struct {
	net.Conn
	until time.Time
}

func (l thinLink) Read(p []byte) (int, error) {
	if time.Now().After(l.until) {
		return l.Conn.Read(p)
	}
	time.Sleep(25 * time.Millisecond)
	return l.Conn.Read(p[:min(len(p), 32<<10)])
}

func TestAnswerOverAThinLinkSurvives(t *testing.T) {
	t.Parallel()
	want := sha256.Sum256(blob())
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			atPace(t, func() error {
				c, got := download(t, way, 2*time.Second)
				link := thinLink{c, time.Now().Add(5 * time.Second)}
				resp, err := http.ReadResponse(bufio.NewReaderSize(link, 64<<10), nil)
				if err != nil {
					return err
				}
				sum := sha256.New()
				n, err := io.Copy(sum, resp.Body)
				if err == nil && [32]byte(sum.Sum(nil)) != want {
					err = errors.New("other bytes")
				}
				if err = errors.Join(err, <-got); err != nil {
					return fmt.Errorf("%d bytes: %w", n, err)
				}
				return nil
			})
		})
	}
}

// counting counts what is read from a file by Read, not by the kernel.
type counting struct {
	*os.File
	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.read += n
	return n, err
}

func TestFilesLeaveBySendfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blob")
	const size = 5 << 20
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", size/16)), 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan int, 2)
	s := serve(t, impatient(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		c := &counting{File: f}
		http.ServeContent(w, r, "", time.Time{}, c)
		read <- c.read
	}))
	for _, c := range []struct{ ranges, first, last string }{
		{"", "0123", "cdef"}, {"bytes=1-4194304", "1234", "def0"},
	} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+s.Addr().String(), nil)
		if c.ranges != "" {
			req.Header.Set("Range", c.ranges)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || int64(len(body)) != resp.ContentLength || string(body[:4]) != c.first || string(body[len(body)-4:]) != c.last {
			t.Errorf("range %q: %d bytes, %v", c.ranges, len(body), err)
		}
		if n := <-read; n > 1024 {
			t.Errorf("%d bytes went through a buffer", n)
		}
	}
}

func TestFilesWithoutSendfile(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	s := serve(t, impatient(func(w http.ResponseWriter, _ *http.Request) {
		r, pipe, err := os.Pipe() // the kernel sends no pipes
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		_, _ = io.WriteString(pipe, text+"too much")
		pipe.Close()
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if n, err := io.CopyN(w, r, int64(len(text))); n != int64(len(text)) || err != nil {
			t.Errorf("copied %d, %v", n, err)
		}
	}))
	if _, body := get(t, dial(t, s), "/"); body != text {
		t.Errorf("got %d bytes", len(body))
	}
}

func TestManyIdleAndDrippingConnections(t *testing.T) {
	s := serve(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hello(w, r)
	}), StallTimeout: time.Hour, IdleTimeout: time.Hour, ReadHeaderTimeout: time.Hour}) // nobody is cut off before the test ends
	for i := range 500 {
		c := dial(t, s)
		switch i % 4 {
		case 0: // silent from the start
		case 1:
			get(t, c, "/")
		case 2:
			send(t, c, "GET / HTTP/1.1\r\nHo")
		case 3:
			send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
		}
	}
	var clients sync.WaitGroup
	client := &http.Client{Timeout: time.Minute}
	for range 8 {
		clients.Go(func() {
			for range 50 {
				resp, err := client.Get("http://" + s.Addr().String())
				if err != nil {
					t.Errorf("a request waits for the others: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	clients.Wait()
	_ = s.Close() // the dripping ones would hold the drain up
}

// A client that asks first whether it may send its body, and may not, is
// answered at once.
func TestRefusedBodyIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})})
	c := dial(t, s)
	began := time.Now()
	send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
	if text := endsWithin(t, c, 10*time.Second); !strings.HasPrefix(text, "HTTP/1.1 401") || time.Since(began) > 2*time.Second {
		t.Errorf("%q after %v", text, time.Since(began))
	}
}
