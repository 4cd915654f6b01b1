package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const bot = "@bot:bench.test"

// sink is a homeserver that says yes to whatever a relay's bot asks and remembers when each event came.
type sink struct {
	server *http.Server
	url    string
	keys   *keyServer // nil where rooms are not encrypted
	reader *reader

	mu      sync.Mutex
	made    int
	joined  map[string]bool
	txns    map[string]bool
	repeats int
	arrived map[string]time.Time // by the first word of the body
}

func startSink(ctx context.Context) (*sink, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + l.Addr().String(), joined: map[string]bool{}}
	s.reset()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(l) }() // ends with stop
	return s, nil
}

func (s *sink) stop() { _ = s.server.Close() }

// reset forgets the events.
func (s *sink) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txns, s.arrived, s.repeats = map[string]bool{}, map[string]time.Time{}, 0
}

func (s *sink) join(room string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined[room] = true
}

// seen returns when each event came, and how many were sent twice.
func (s *sink) seen() (arrived map[string]time.Time, repeats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrived = make(map[string]time.Time, len(s.arrived))
	for k, at := range s.arrived {
		arrived[k] = at
	}
	return arrived, s.repeats
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrived)
}

// ServeHTTP answers the part of the client-server API that bots use.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/_matrix/client/")
	_, path, _ = strings.Cut(path, "/") // the version
	part := strings.Split(path, "/")
	for i := range part {
		if p, err := url.PathUnescape(part[i]); err == nil {
			part[i] = p
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	if answer, ok := s.answerKeys(path, part, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), body); ok {
		_ = json.NewEncoder(w).Encode(answer) // who hung up needs no answer
		return
	}
	switch {
	case r.Method == http.MethodPut && len(part) == 5 && part[0] == "rooms" && part[2] == "send":
		if s.reader != nil {
			body = s.reader.decrypt(part[1], "$"+part[4], body)
		}
		fmt.Fprintf(w, `{"event_id":"$%x"}`, s.take(part[1]+" "+part[4], body))
	case part[0] == "login" && r.Method == http.MethodGet:
		io.WriteString(w, `{"flows":[{"type":"m.login.password"}]}`)
	case part[0] == "login", path == "account/whoami":
		fmt.Fprintf(w, `{"user_id":%q,"access_token":"token","device_id":"BENCH"}`, bot)
	case path == "createRoom":
		fmt.Fprintf(w, `{"room_id":%q}`, s.create())
	case path == "joined_rooms":
		s.answerJoined(w)
	case path == "sync":
		s.sync(w, r)
	case len(part) >= 4 && part[2] == "state" && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errcode":"M_NOT_FOUND"}`)
	case len(part) == 3 && part[0] == "user" && part[2] == "filter":
		io.WriteString(w, `{"filter_id":"1"}`)
	default:
		io.WriteString(w, `{}`)
	}
}

// take notes an event, once for each transaction.
func (s *sink) take(txn string, body []byte) string {
	var content struct{ Body string }
	_ = json.Unmarshal(body, &content) // what has no body is no message of ours
	_, key, _ := strings.Cut(content.Body, marker)
	key, _, _ = strings.Cut(key, " ")
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.txns[txn] {
		s.repeats++
		return txn
	}
	s.txns[txn] = true
	if key != "" {
		s.arrived[key] = now
	}
	return txn
}

func (s *sink) create() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	room := fmt.Sprintf("!made%d:bench.test", s.made)
	s.joined[room] = true
	return room
}

func (s *sink) answerJoined(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rooms := make([]string, 0, len(s.joined))
	for room := range s.joined {
		rooms = append(rooms, room)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"joined_rooms": rooms}) // who hung up needs no answer
}

// sync has nothing to tell: the first answer comes at once, the others as late as the client allows.
func (s *sink) sync(w io.Writer, r *http.Request) {
	if r.URL.Query().Get("since") != "" {
		wait, err := time.ParseDuration(r.URL.Query().Get("timeout") + "ms")
		if err != nil {
			wait = 0
		}
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
	}
	io.WriteString(w, `{"next_batch":"s1","rooms":{}}`)
}
