package server

import (
	"context"
	"net"
	"net/http"
)

// headBytes are sent with the head of an answer whose rest is a file: net/http
// looks at so many before it gives the file to the connection.
const headBytes = 512

// maxHeld is up to what length of a file holding its head pays. Of more, head
// and file are not one unit of 64 KiB any more for the kernel, and to split what
// begins within a page cost 40 % more for an answer of 64 KiB.
const maxHeld = 48 << 10

type connKey struct{}

// connContext lets handlers find the connection, beneath which there is no TLS.
func connContext(ctx context.Context, outer net.Conn) context.Context {
	if c, ok := outer.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// HoldHead is called by a handler that is about to answer with n bytes of a
// file. If they are few, the head of the answer leaves together with them, which
// spares a segment and a wake-up of the client. The handler calls release
// once the file is sent, whether it was or not.
func HoldHead(r *http.Request, n int64) (release func()) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || r.ProtoMajor != 1 || n <= headBytes || n > maxHeld {
		return func() {}
	}
	c.more = true
	return func() { c.more = false }
}
