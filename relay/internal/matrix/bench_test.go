package matrix

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkSend is the cost of one event against a server that does next to nothing.
func BenchmarkSend(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(conn)
		}
	}()
	c, err := New(Options{Homeserver: "http://" + l.Addr().String(), AccessToken: "token"})
	if err != nil {
		b.Fatal(err)
	}
	c.session.Store(c.newSession("@bot:localhost", "D", "token"))
	c.rooms.setSyncing(true)
	c.rooms.update("!room:localhost", func(k *room) { k.checked = k.checked.AddDate(2000, 0, 0) })
	out := Outgoing{RoomID: "!room:localhost", TxnID: "abcdef-12345-0123456789abcdef", Device: "D", EventType: "m.room.message", Content: text("Backup done", "t")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(b.Context(), out); err != nil {
			b.Fatal(err)
		}
	}
}

func answerAll(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n{\"event_id\":\"$0123456789\"}")
	}
}
