// Package systemd reports the state of a service to the manager that started it, in the protocol of sd_notify(3).
package systemd

import (
	"context"
	"net"
	"os"
	"time"

	"go.uber.org/zap"
)

// patience bounds the wait for a manager that doesn't read its socket.
const patience = 5 * time.Second

// Ready sends READY=1, and STOPPING=1 once ctx is done. The caller must call wait before the process ends; wait blocks
// until STOPPING=1 was sent if ctx is done. Without NOTIFY_SOCKET in the environment Ready does nothing.
func Ready(ctx context.Context, log *zap.Logger) (wait func()) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func() {}
	}
	send(socket, "READY=1", log)
	sent := make(chan struct{})
	withdraw := context.AfterFunc(ctx, func() {
		defer close(sent)
		send(socket, "STOPPING=1", log)
	})
	return func() {
		if !withdraw() {
			<-sent
		}
	}
}

func send(socket, state string, log *zap.Logger) {
	conn, err := net.Dial("unixgram", socket) //nolint:noctx // a local socket answers at once
	if err == nil {
		if err = conn.SetWriteDeadline(time.Now().Add(patience)); err == nil {
			_, err = conn.Write([]byte(state))
		}
		_ = conn.Close() // what was sent has been sent
	}
	if err != nil {
		log.Warn("cannot report the state to systemd", zap.String("state", state), zap.Error(err))
	}
}
