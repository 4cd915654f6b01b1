package servertest

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Fault replaces the forwarding of a request.
type Fault func(*Exchange)

func forward(x *Exchange) {
	a, err := x.ask()
	if err != nil {
		a = answer{status: http.StatusBadGateway, body: []byte("<html>bad gateway</html>")}
	}
	x.reply(a)
}

// Answer replies instead of the server. header is pairs of name and value.
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

// Drop closes the connection before the server sees the request.
func Drop() Fault {
	return func(*Exchange) { panic(http.ErrAbortHandler) }
}

// DropAnswer forwards the request and closes the connection instead of returning the answer.
func DropAnswer() Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is dropped
		panic(http.ErrAbortHandler)
	}
}

// ReplaceAnswer forwards the request and returns another answer.
func ReplaceAnswer(status int, body string) Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is dropped
		x.reply(answer{status: status, body: []byte(body)})
	}
}

// Truncate returns the first half of the server's answer.
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

// Cut returns the first half of the server's answer as if it were complete.
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

// Delay forwards the request after a delay.
func Delay(d time.Duration) Fault {
	return func(x *Exchange) {
		time.Sleep(d)
		forward(x)
	}
}

// Hang never answers, like a half-open connection.
func Hang() Fault {
	return func(x *Exchange) { <-x.Request.Context().Done() }
}

// HangAfter forwards the request and never answers.
func HangAfter() Fault {
	return func(x *Exchange) {
		_, _ = x.ask() // the answer is dropped
		<-x.Request.Context().Done()
	}
}

// Sometimes applies a fault to a random 1 of n requests and forwards the others.
func Sometimes(n int, fault Fault) Fault {
	return func(x *Exchange) {
		if rand.IntN(n) == 0 {
			fault(x)
			return
		}
		forward(x)
	}
}
