package main

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// scene is the state of the services in the pictures.
type scene struct {
	message    int64  // number of a message
	room, push string // URLs of our rendering of the room, and of a push with its message
}

// said is the output of one program.
type said struct {
	app, title, message string
	priority            int
}

var messages = []said{
	{"backup", "Nightly backup", "`db1` to `s3://backup`: **12.4 GB** in 3 min 12 s\n\n- 41 new chunks, 1,208 unchanged\n- oldest copy kept: 2026-10-24", 0},
	{"monitoring", "web2: disk 91 % full", "`/var` grows by 2 GB a day.\n\n```\nFilesystem  Size  Used Avail Use% Mounted on\n/dev/vda1    40G   36G  3.6G  91% /var\n```", 1},
	{"deploy", "shop 1.4.2 is live", "By *anna*, 2 min 41 s. [Changes](https://git.example.org/shop/compare/v1.4.1...v1.4.2)\n\n1. faster search\n2. fewer mails", -1},
}

// line is an event of the room as our page shows it.
type line struct {
	Time, Class string
	Body        template.HTML
}

// play pushes an image, sends messages, and writes the pages of the room.
func (s *stack) play(ctx context.Context, crane string) (*scene, error) {
	room, token, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	var sc scene
	for _, m := range messages {
		app, err := s.command(ctx, "relay", "app", "create", m.app, "--quiet", "--room", room, "--config", s.config)
		if err != nil {
			return nil, err
		}
		var answer struct{ ID int64 }
		body := map[string]any{"token": app, "title": m.title, "message": m.message, "priority": m.priority}
		if err := request(ctx, http.MethodPost, s.relay+"/message?wait=20s", "", body, &answer); err != nil {
			return nil, err
		}
		if m.app == "monitoring" {
			sc.message = answer.ID
		}
	}
	terminal, err := s.pushImage(ctx, crane)
	if err != nil {
		return nil, err
	}
	lines, err := s.waitLines(ctx, room, token, len(messages)+1)
	if err != nil {
		return nil, err
	}
	var name struct{ Name string }
	if err := request(ctx, http.MethodGet, s.homeserver+"/_matrix/client/v3/rooms/"+url.PathEscape(room)+"/state/m.room.name", token, nil, &name); err != nil {
		return nil, err
	}
	if sc.room, err = s.page("room", name.Name, "", lines); err != nil {
		return nil, err
	}
	sc.push, err = s.page("push", name.Name, terminal, lines[len(lines)-1:])
	return &sc, err
}

// join logs the person in, takes the invitation and returns the room and the
// person's access token.
func (s *stack) join(ctx context.Context) (room, token string, err error) {
	login := map[string]any{"type": "m.login.password", "identifier": map[string]string{"type": "m.id.user", "user": "you"}, "password": s.secret("person_password")}
	var person struct {
		Token string `json:"access_token"`
	}
	if err := request(ctx, http.MethodPost, s.homeserver+"/_matrix/client/v3/login", "", login, &person); err != nil {
		return "", "", err
	}
	var seen struct {
		Rooms struct{ Invite, Join map[string]json.RawMessage }
	}
	for ctx.Err() == nil {
		if err := request(ctx, http.MethodGet, s.homeserver+"/_matrix/client/v3/sync?timeout=1000", person.Token, nil, &seen); err != nil {
			return "", "", err
		}
		for room := range seen.Rooms.Join {
			return room, person.Token, nil
		}
		for room := range seen.Rooms.Invite {
			return room, person.Token, request(ctx, http.MethodPost, s.homeserver+"/_matrix/client/v3/join/"+url.PathEscape(room), person.Token, map[string]any{}, nil)
		}
	}
	return "", "", ctx.Err()
}

// pushImage pushes an image and returns what a terminal shows.
func (s *stack) pushImage(ctx context.Context, crane string) (string, error) {
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	content := bytes.Repeat([]byte("hello\n"), 1000)
	err := t.WriteHeader(&tar.Header{Name: "hello", Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = t.Write(content)
	}
	if err = errors.Join(err, t.Close(), os.WriteFile(filepath.Join(s.dir, "layer.tar"), layer.Bytes(), 0o600)); err != nil {
		return "", err
	}
	tool, err := filepath.Abs(crane)
	if err != nil {
		return "", err
	}
	image := strings.Replace(s.registry, "127.0.0.1", "localhost", 1) + "/team/hello:1.0"
	var shown strings.Builder
	for _, args := range [][]string{{"append", "-f", "layer.tar", "-o", "hello.tar", "-t", "hello:1.0"}, {"push", "hello.tar", image}} {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir = s.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("crane %s: %w: %s", args[0], err, out)
		}
		if args[0] == "push" {
			fmt.Fprintf(&shown, "$ crane %s\n%s", strings.Join(args, " "), out)
		}
	}
	return shown.String(), nil
}

// waitLines waits until n messages are in the room.
func (s *stack) waitLines(ctx context.Context, room, token string, n int) ([]line, error) {
	for ctx.Err() == nil {
		lines, err := s.lines(ctx, room, token)
		if err != nil || len(lines) >= n {
			return lines, err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil, fmt.Errorf("the room has fewer than %d messages: %w", n, ctx.Err())
}

func (s *stack) lines(ctx context.Context, room, token string) ([]line, error) {
	var history struct {
		Chunk []struct {
			Type    string
			TS      int64 `json:"origin_server_ts"`
			Content struct {
				Body, MsgType string
				Formatted     string `json:"formatted_body"`
			}
		}
	}
	if err := request(ctx, http.MethodGet, s.homeserver+"/_matrix/client/v3/rooms/"+url.PathEscape(room)+"/messages?dir=b&limit=50", token, nil, &history); err != nil {
		return nil, err
	}
	var lines []line
	for _, e := range slices.Backward(history.Chunk) {
		if e.Type != "m.room.message" {
			continue
		}
		body := template.HTML(e.Content.Formatted) //nolint:gosec // the relay has cleaned it, and the page is for a picture
		if body == "" {
			body = template.HTML(template.HTMLEscapeString(e.Content.Body)) //nolint:gosec // escaped
		}
		lines = append(lines, line{Time: time.UnixMilli(e.TS).UTC().Format("15:04"), Class: strings.TrimPrefix(e.Content.MsgType, "m."), Body: body})
	}
	return lines, nil
}

// page writes our rendering of a room, with a terminal above it if there is text for
// one, and returns its URL.
func (s *stack) page(name, room, terminal string, lines []line) (string, error) {
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, struct {
		Room, Terminal string
		Lines          []line
	}{room, terminal, lines}); err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, name+".html")
	return "file://" + file, os.WriteFile(file, out.Bytes(), 0o600)
}

// request sends JSON with a token and reads the answer into answer, unless it is nil.
func request(ctx context.Context, method, target, token string, body, answer any) error {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, req.URL.Path, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
