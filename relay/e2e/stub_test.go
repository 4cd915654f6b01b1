package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is a homeserver that takes thousands of events a second: it knows the
// transactions of its one device, and nothing else.
type stub struct {
	url   string
	mu    sync.Mutex
	rooms map[string][]string // bodies by room
	all   map[string][]string // events by room
	seen  map[string]string   // event ids by room and transaction

	events int
}

func newStub(t *testing.T) *stub {
	s := &stub{rooms: map[string][]string{}, all: map[string][]string{}, seen: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *stub) bodies(room string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rooms[room])
}

// count is how many events there are.
func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// forget is a restart of a homeserver that keeps its transactions in memory.
func (s *stub) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
}

// history returns the newest events of a room, newest first.
func (s *stub) history(room string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := slices.Clone(s.all[room][max(0, len(s.all[room])-100):])
	slices.Reverse(page)
	return strings.Join(page, ",")
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/_matrix/client/v3/")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.Contains(path, "/send/"):
		sender := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		fmt.Fprintf(w, `{"event_id":%q}`, s.send(strings.Split(path, "/"), sender, body))
	case strings.HasSuffix(path, "/messages"):
		fmt.Fprintf(w, `{"chunk":[%s]}`, s.history(strings.Split(path, "/")[1]))
	case path == "login":
		io.WriteString(w, `{"user_id":"`+s.user(body)+`","device_id":"D","access_token":"`+s.user(body)+`"}`)
	case path == "account/whoami":
		fmt.Fprintf(w, `{"user_id":%q,"device_id":"D"}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	case path == "createRoom":
		fmt.Fprintf(w, `{"room_id":%q}`, s.create())
	case path == "joined_rooms":
		io.WriteString(w, `{"joined_rooms":[]}`)
	case path == "sync":
		if r.URL.Query().Get("since") != "" {
			select {
			case <-r.Context().Done():
			case <-time.After(2 * time.Second):
			}
		}
		io.WriteString(w, `{"next_batch":"s1"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errcode":"M_NOT_FOUND"}`)
	}
}

func (s *stub) user(login []byte) string {
	var in struct{ Identifier struct{ User string } }
	_ = json.Unmarshal(login, &in) // an empty name is as good as another
	return in.Identifier.User
}

func (s *stub) create() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := fmt.Sprintf("!r%d:localhost", len(s.rooms))
	s.rooms[room] = nil
	return room
}

// send takes rooms/{room}/send/{type}/{txn}.
func (s *stub) send(path []string, sender string, body []byte) string {
	var content struct{ Body string }
	_ = json.Unmarshal(body, &content) // a broken body would show as an empty one
	s.mu.Lock()
	defer s.mu.Unlock()
	room, key := path[1], path[1]+" "+path[4]
	if id, ok := s.seen[key]; ok {
		return id
	}
	id := fmt.Sprintf("$%d", s.events)
	s.events++
	s.seen[key] = id
	s.rooms[room] = append(s.rooms[room], content.Body)
	event := fmt.Sprintf(`{"event_id":%q,"sender":%q,"type":%q,"origin_server_ts":%d,"content":%s}`, id, sender, path[3], time.Now().UnixMilli(), body)
	s.all[room] = append(s.all[room], event)
	return id
}
