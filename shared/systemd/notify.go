// Package systemd reports the state of a service to the manager that started it, in the protocol of sd_notify(3).
package systemd

import (
	"context"
	"net"
	"os"

	"go.uber.org/zap"
)

// Ready reports that the service answers, and, once ctx is done, that it stops. Without NOTIFY_SOCKET in the environment
// it does nothing.
func Ready(ctx context.Context, log *zap.Logger) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	send(socket, "READY=1", log)
	context.AfterFunc(ctx, func() { send(socket, "STOPPING=1", log) })
}

func send(socket, state string, log *zap.Logger) {
	conn, err := net.Dial("unixgram", socket) //nolint:noctx // a datagram waits for nobody
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close() // what was sent has been sent
	}
	if err != nil {
		log.Warn("cannot report the state to systemd", zap.String("state", state), zap.Error(err))
	}
}
