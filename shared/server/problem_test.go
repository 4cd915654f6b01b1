package server

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

func TestExplainListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct{ addr, want string }{
		{taken.Addr().String(), "http.addr: " + taken.Addr().String() + " is in use by another program: stop that one"},
		{"192.0.2.1:8080", "http.addr: 192.0.2.1:8080 is not an address of this machine"},
	} {
		_, err := Listen(Options{Name: "main", Addr: tt.addr, Handler: http.NotFoundHandler(), Log: zap.NewNop()})
		if explained := ExplainListen(err, "http.addr", tt.addr); explained == nil || !strings.HasPrefix(explained.Error(), tt.want) || !errors.Is(explained, err) {
			t.Errorf("%s: %v, want %q and the error in it", tt.addr, explained, tt.want)
		}
	}
	for _, other := range []error{
		errors.New("the certificate is broken"),
		&fs.PathError{Op: "open", Path: "key.pem", Err: syscall.EACCES},
		&net.OpError{Op: "listen", Net: "unix", Err: os.NewSyscallError("bind", syscall.EACCES)}, // it has no port
	} {
		if err := ExplainListen(other, "http.addr", "x"); !errors.Is(err, other) || err.Error() != other.Error() {
			t.Errorf("an error that is none of the address: %v", err)
		}
	}
	low := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	if err := ExplainListen(low, "http.addr", ":80"); !errors.Is(err, low) || !strings.Contains(err.Error(), "may not listen on :80: choose a port above 1023") {
		t.Errorf("a port below 1024: %v", err)
	}
	if err := ExplainListen(nil, "http.addr", "x"); err != nil {
		t.Errorf("no error: %v", err)
	}
}
