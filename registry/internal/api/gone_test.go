package api

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
)

// A connection that times out is the client's doing, a storage that does is ours.
func TestClientGone(t *testing.T) {
	timedOut := os.NewSyscallError("x", syscall.ETIMEDOUT)
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"the connection timed out":          {&net.OpError{Op: "write", Err: timedOut}, true},
		"the connection was reset":          {&net.OpError{Op: "readfrom", Err: os.NewSyscallError("sendfile", syscall.ECONNRESET)}, true},
		"a file timed out":                  {fmt.Errorf("read /blob: %w", timedOut), false},
		"a file timed out while it is sent": {&net.OpError{Op: "readfrom", Err: timedOut}, false},
	} {
		r := &request{Request: httptest.NewRequest("GET", "/v2/", nil)}
		if got := clientGone(r, tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
