package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// person is somebody with a Matrix account who reads the room.
type person struct {
	http        *http.Client
	base        string
	token, room string
}

// login makes a person of name and password, in the only room they are in.
func login(t *testing.T, client *http.Client, base, name, password string) *person {
	t.Helper()
	p := &person{http: client, base: base}
	var session struct {
		Token string `json:"access_token"`
	}
	p.call(t, "POST", "/login", map[string]any{
		"type": "m.login.password", "password": password, "identifier": map[string]string{"type": "m.id.user", "user": name},
	}, &session)
	p.token = session.Token
	var joined struct {
		Rooms []string `json:"joined_rooms"`
	}
	p.call(t, "GET", "/joined_rooms", nil, &joined)
	if len(joined.Rooms) != 1 {
		t.Fatalf("%s is in the rooms %q, not in one", name, joined.Rooms)
	}
	p.room = joined.Rooms[0]
	return p
}

func (p *person) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := p.ask(t, method, path, in, out); err != nil {
		t.Fatal(err)
	}
}

func (p *person) ask(t *testing.T, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.base+"/_matrix/client/v3"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

// messages are the texts in the room, newest first.
func (p *person) messages(t *testing.T) ([]string, error) {
	var page struct {
		Chunk []struct {
			Type    string
			Content struct{ Body string }
		}
	}
	err := p.ask(t, "GET", "/rooms/"+url.PathEscape(p.room)+"/messages?dir=b&limit=500", nil, &page)
	var texts []string
	for _, event := range page.Chunk {
		if event.Type == "m.room.message" {
			texts = append(texts, event.Content.Body)
		}
	}
	return texts, err
}

// count is how many of the messages have the text in them.
func count(messages []string, text string) int {
	n := 0
	for _, message := range messages {
		if strings.Contains(message, text) {
			n++
		}
	}
	return n
}

// reads waits for a message with the text, and for the homeserver if it is away.
func (p *person) reads(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		messages, err := p.messages(t)
		if count(messages, text) > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no message about %s in the room: %v\n%s", text, err, strings.Join(messages, "\n"))
		}
	}
}

// readsOnce looks at the end at what every push left: one message each.
func (p *person) readsOnce(t *testing.T, texts ...string) {
	t.Helper()
	messages, err := p.messages(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if n := count(messages, text); n != 1 {
			t.Errorf("%d messages about %s", n, text)
		}
	}
	if len(messages) != len(texts) {
		t.Errorf("%d messages for %d pushes:\n%s", len(messages), len(texts), strings.Join(messages, "\n"))
	}
}
