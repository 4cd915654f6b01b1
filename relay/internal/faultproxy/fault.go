package faultproxy

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Fault is what happens to a request in place of forwarding it.
type Fault func(*Exchange)

func forward(x *Exchange) {
	a, err := x.ask()
	if err != nil {
		a = answer{status: http.StatusBadGateway, body: []byte("<html>bad gateway</html>")}
	}
	x.reply(a)
}

// Answer replies in place of the server. Header is pairs of name and value.
func Answer(status int, body string, header ...string) Fault {
	return func(x *Exchange) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Add(header[i], header[i+1])
		}
		x.reply(answer{status, h, []byte(body)})
	}
}

// Matrix replies with a standard error of the client-server API.
func Matrix(status int, code string, header ...string) Fault {
	return Answer(status, `{"errcode":"`+code+`","error":"by script"}`, append(header, "Content-Type", "application/json")...)
}

// Drop breaks the connection; the server does not see the request.
func Drop() Fault {
	return func(*Exchange) { panic(http.ErrAbortHandler) }
}

// DropAnswer lets the server do its work and breaks the connection in place of
// passing the answer on.
func DropAnswer() Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is lost whatever it is
		panic(http.ErrAbortHandler)
	}
}

// ReplaceAnswer lets the server do its work and answers something else.
func ReplaceAnswer(status int, body string) Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is lost whatever it is
		x.reply(answer{status: status, body: []byte(body)})
	}
}

// Truncate passes half of the server's answer on.
func Truncate() Fault {
	return func(x *Exchange) {
		a, err := x.ask()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		x.w.WriteHeader(a.status)
		_, _ = x.w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(x.w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Cut passes half of the server's answer on as if it were all.
func Cut() Fault {
	return func(x *Exchange) {
		a, err := x.ask()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		a.body = a.body[:len(a.body)/2]
		x.reply(a)
	}
}

// Delay forwards after a while.
func Delay(d time.Duration) Fault {
	return func(x *Exchange) {
		time.Sleep(d)
		forward(x)
	}
}

// Hang never answers: the other end of a half-open connection.
func Hang() Fault {
	return func(x *Exchange) { <-x.Request.Context().Done() }
}

// HangAfter lets the server do its work and never answers.
func HangAfter() Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is lost whatever it is
		<-x.Request.Context().Done()
	}
}

// Sometimes applies a fault to one of n requests, by chance, and forwards the others.
func Sometimes(n int, fault Fault) Fault {
	return func(x *Exchange) {
		if rand.IntN(n) == 0 {
			fault(x)
			return
		}
		forward(x)
	}
}
