package server

import (
	"errors"
	"net"
	"net/http"
	"strings"
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
		{"192.0.2.1:8080", "http.addr: 192.0.2.1:8080 is no address of this machine"},
	} {
		_, err := Listen(Options{Name: "main", Addr: tt.addr, Handler: http.NotFoundHandler(), Log: zap.NewNop()})
		if explained := ExplainListen(err, "http.addr", tt.addr); explained == nil || !strings.HasPrefix(explained.Error(), tt.want) || !errors.Is(explained, err) {
			t.Errorf("%s: %v, want %q and the error in it", tt.addr, explained, tt.want)
		}
	}
	other := errors.New("the certificate is broken")
	if err := ExplainListen(other, "http.addr", "x"); !errors.Is(err, other) || err.Error() != other.Error() {
		t.Errorf("an error that is none of the address: %v", err)
	}
	if err := ExplainListen(nil, "http.addr", "x"); err != nil {
		t.Errorf("no error: %v", err)
	}
}
