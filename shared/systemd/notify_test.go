package systemd

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestReady(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	core, logged := observer.New(zap.WarnLevel)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	says := func(want string) {
		var room [100]byte
		n, err := manager.Read(room[:])
		if got := string(room[:n]); err != nil || got != want {
			t.Errorf("the manager reads %q, want %q (%v)", got, want, err)
		}
	}
	wait := Ready(ctx, zap.New(core))
	says("READY=1")
	cancel()
	wait()
	says("STOPPING=1")
	if logged.Len() > 0 {
		t.Errorf("logged: %v", logged.All())
	}
	// Nobody listens. The service runs anyway.
	t.Setenv("NOTIFY_SOCKET", socket+"2")
	Ready(t.Context(), zap.New(core))()
	if logged.Len() != 1 {
		t.Errorf("%d lines say that nobody listens", logged.Len())
	}
}
