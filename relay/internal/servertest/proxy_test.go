package servertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Path", r.URL.EscapedPath())
		w.WriteHeader(http.StatusCreated)
		w.Write(append([]byte("got "), body...))
	}))
	defer server.Close()
	p, err := StartProxy(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range []struct {
		name   string
		fault  Fault
		status int // 0: no answer
		body   string
		asked  int32
	}{
		{"answer", Answer(429, "slow", "Retry-After", "7"), 429, "slow", 0},
		{"matrix", Matrix(403, "M_FORBIDDEN"), 403, `{"errcode":"M_FORBIDDEN","error":"by script"}`, 0},
		{"drop", Drop(), 0, "", 0},
		{"drop answer", DropAnswer(), 0, "", 1},
		{"replace answer", ReplaceAnswer(502, "<html>"), 502, "<html>", 1},
		{"truncate", Truncate(), 201, "got ", 1},
		{"cut", Cut(), 201, "got ", 1},
		{"delay", Delay(50 * time.Millisecond), 201, "got ping", 1},
		{"hang", Hang(), 0, "", 0},
		{"hang after", HangAfter(), 0, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked.Store(0)
			p.Script(Rule{Method: "PUT", Path: "/a%2Fb", Times: 1, Fault: tt.fault})
			p.Forget()
			status, body := put(client, p.URL+"/a%2Fb")
			if status != tt.status || body != tt.body || asked.Load() != tt.asked {
				t.Errorf("status %d, body %q, asked %d, want %d, %q, %d", status, body, asked.Load(), tt.status, tt.body, tt.asked)
			}
			if status, body := put(client, p.URL+"/a%2Fb"); status != 201 || body != "got ping" {
				t.Errorf("after the script: status %d, body %q", status, body)
			}
			if r := p.Records("/a%2Fb"); len(r) != 2 || !r[0].Fault || r[1].Fault || r[1].Body != "ping" || r[1].Status != 201 {
				t.Errorf("records = %+v", r)
			}
		})
	}
	p.Script()
	p.Down()
	if status, _ := put(client, p.URL); status != 0 {
		t.Errorf("down: status %d", status)
	}
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	if status, _ := put(client, p.URL); status != 201 {
		t.Errorf("up again: status %d", status)
	}
}

func put(client *http.Client, url string) (int, string) {
	req, _ := http.NewRequest(http.MethodPut, url, strings.NewReader("ping"))
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}
