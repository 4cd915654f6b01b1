package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start is serve for tests that look at the end.
func start(t *testing.T, drain time.Duration, servers ...*Server) (stop func(), ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- Run(ctx, drain, servers...) }()
	t.Cleanup(cancel)
	return cancel, ended
}

func listenTest(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDrainLetsUploadsFinish(t *testing.T) {
	began := make(chan struct{})
	main := listenTest(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err, r.Context().Err())
	})})
	debug := listenTest(t, Options{Handler: http.HandlerFunc(hello)})
	stop, ended := start(t, 10*time.Second, main, debug)

	c, idle := dial(t, main), dial(t, debug)
	get(t, idle, "/")
	send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	<-began
	stop()
	endsWithin(t, idle, 3*time.Second)
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(time.Millisecond) { // the servers stop beside each other
		late, err := net.DialTimeout("tcp", main.Addr().String(), time.Second)
		if err != nil {
			break
		}
		late.Close()
		if time.Now().After(deadline) {
			t.Fatal("new connections are still taken")
		}
	}
	send(t, c, "def")
	if _, body := answer(t, c); body != fmt.Sprint(6, nil, nil) {
		t.Errorf("got %q", body)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestDrainThatIsOverCuts(t *testing.T) {
	began, left := make(chan struct{}), make(chan error, 1)
	s := listenTest(t, Options{Name: "main", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		left <- r.Context().Err()
	})})
	stop, ended := start(t, 200*time.Millisecond, s)
	c := dial(t, s)
	send(t, c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	<-began
	stop()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "main server: cut 1 request still running after 200ms") {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Run does not end")
	}
	select {
	case <-left:
	default:
		t.Error("Run returned before the handler")
	}
}

func TestNoDrainTimeCutsAtOnce(t *testing.T) {
	began := make(chan struct{})
	s := listenTest(t, Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})})
	stop, ended := start(t, 0, s)
	send(t, dial(t, s), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestOneFailedServerStopsTheOthers(t *testing.T) {
	main, debug := listenTest(t, Options{Name: "main", Handler: http.HandlerFunc(hello)}), listenTest(t, Options{Name: "debug", Handler: http.HandlerFunc(hello)})
	_, ended := start(t, time.Second, main, debug)
	get(t, dial(t, main), "/")
	_ = debug.listener.Close() // as if the socket broke
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "debug server") {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the main server goes on alone")
	}
}

func TestStoppedBeforeItServes(t *testing.T) {
	s := listenTest(t, Options{Handler: http.HandlerFunc(hello)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Run(ctx, time.Second, s); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) { // another process may have the port by now
		t.Errorf("the listener was still open (%v)", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close() // as a killed server leaves it
	o := Options{Network: "unix", Addr: path, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open("pace_test.go")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		http.ServeContent(w, r, "", time.Time{}, f)
	})}
	s := serve(t, o)
	want, _ := os.ReadFile("pace_test.go")
	if _, body := get(t, dial(t, s), "/"); body != string(want) {
		t.Errorf("%d bytes, want %d", len(body), len(want))
	}
	if _, err := Listen(o); err == nil || !strings.Contains(err.Error(), "already listening") {
		t.Errorf("a second server: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Options{Network: "unix", Addr: file}); err == nil {
		t.Error("a file was taken for a socket")
	}
	if got, _ := os.ReadFile(file); string(got) != "precious" {
		t.Error("a file was removed")
	}
}

func TestListenErrors(t *testing.T) {
	taken := listenTest(t, Options{})
	for name, o := range map[string]Options{
		"address in use":  {Addr: taken.Addr().String()},
		"network":         {Network: "udp", Addr: "127.0.0.1:0"},
		"no such address": {Addr: "256.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Name = "main"
			if _, err := Listen(o); err == nil || !strings.HasPrefix(err.Error(), "main server: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}
