package server

import (
	"bytes"
	"log"

	"go.uber.org/zap"
)

// errorLog takes what net/http says of its own accord. Failed handshakes and
// prefaces are the noise of port scanners and probes; everything else is worth a
// warning.
func errorLog(to *zap.Logger) *log.Logger { return log.New(httpErrors{to}, "", 0) }

type httpErrors struct{ log *zap.Logger }

// Write implements io.Writer.
func (h httpErrors) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) || bytes.HasPrefix(line, []byte("http2: server")) {
		h.log.Debug(text)
	} else {
		h.log.Warn(text)
	}
	return len(line), nil
}
