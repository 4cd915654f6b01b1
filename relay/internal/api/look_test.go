package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
)

// seen waits for the next event and returns what its readers see.
func (w *world) seen(n int) (body, html string) {
	w.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if sent := w.hs.Sent(); len(sent) >= n {
			var c struct {
				Body string `json:"body"`
				HTML string `json:"formatted_body"`
			}
			if err := json.Unmarshal(sent[n-1].Content, &c); err != nil {
				w.Fatal(err)
			}
			return c.Body, c.HTML
		}
	}
	w.Fatalf("event %d never came", n)
	return "", ""
}

// An edit has the scale and the format that a message with the token at the same place has.
func TestEditFormat(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	sent := w.ask("POST", "/message?wait=5s", `{"message":"m"}`, "X-Gotify-Key: "+token)
	w.want("send", sent, 200, "status", "sent")
	path := fmt.Sprint("/message/", sent.fields["id"])
	for i, tt := range []struct {
		name, token, header string
		sent                int
		priority            float64
		body                string
	}{
		{"Gotify's header", "", "X-Gotify-Key: " + token, 8, 1, "__init__.py"},
		{"Bearer", "", "Authorization: Bearer " + token, 5, 0, "init.py"},
		{"in the body", token, isJSON, 1, 1, "init.py"},
	} {
		w.want(tt.name, w.ask("PUT", path, fmt.Sprintf(`{"message":"__init__.py %d","token":%q,"priority":%d}`, i, tt.token, tt.sent), tt.header), 200, "priority", tt.priority)
		if body, _ := w.seen(i + 2); !strings.HasSuffix(body, fmt.Sprint(" ", tt.body, " ", i)) {
			t.Errorf("%s: %q, want %q", tt.name, body, tt.body)
		}
	}
	w.want("two tokens", w.ask("PUT", path, `{"message":"m","token":"other"}`, "X-Gotify-Key: "+token), 401, "field", "token")
}

// TestDefaultFormat: what a client of Gotify sends arrives as it was written, unless it or the application says that
// it is Markdown.
func TestDefaultFormat(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	const text = `__init__.py and C:\\new\\_dir\\*`
	plain, marked := `__init__.py and C:\new\_dir\*`, `init.py and C:\new_dir*`
	send := func(format, extra string, headers ...string) reply {
		w.manage("PUT", "/application/1", `{"default_format":"`+format+`"}`)
		return w.ask("POST", "/message", `{"message":"`+text+`"`+extra+`}`, append(headers, isJSON)...)
	}
	gotify, bearer := "X-Gotify-Key: "+token, "Authorization: Bearer "+token
	for i, tt := range []struct {
		name string
		r    reply
		want string
	}{
		{"Gotify", send("auto", "", gotify), plain},
		{"Gotify that says Markdown", send("auto", `,"extras":{"client::display":{"contentType":"text/markdown"}}`, gotify), marked},
		{"ours", send("auto", "", bearer), marked},
		{"ours, token in the body", send("auto", `,"token":"`+token+`"`), marked},
		{"Gotify, the application says Markdown", send("markdown", "", gotify), marked},
		{"ours, the application says plain", send("plain", "", bearer), plain},
		{"ours says Markdown, the application plain", send("plain", `,"extras":{"client::display":{"contentType":"text/markdown"}}`, bearer), marked},
	} {
		w.want(tt.name, tt.r, 200)
		if body, _ := w.seen(i + 1); body != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, body, tt.want)
		}
	}
}

// TestSender: in a room that applications share, readers see which one sends.
func TestSender(t *testing.T) {
	w := newWorld(t, nil)
	first := w.app(named("backup")).Token
	n := 0
	wantTitle := func(want string) {
		t.Helper()
		n++
		w.want("send", w.ask("POST", "/message", `{"token":"`+first+`","title":"Done","message":"m"}`), 200)
		if body, _ := w.seen(n); body != want+"\n\nm" {
			t.Errorf("event %d: %q, want the title %q", n, body, want)
		}
	}
	wantTitle("Done")
	w.app(named("monitor"))
	wantTitle("backup: Done")
	choose := func(choice post.ShowSender) {
		w.want("choose", w.manage("PUT", "/application/1", `{"show_sender":"`+string(choice)+`"}`), 200)
	}
	choose(post.ShowNever)
	wantTitle("Done")
	choose(post.ShowAlways)
	wantTitle("backup: Done")
	w.want("send without a title", w.ask("POST", "/message", `{"token":"`+first+`","message":"m"}`), 200)
	if body, _ := w.seen(n + 1); body != "backup\n\nm" {
		t.Errorf("without a title: %q", body)
	}
}

// TestRoomProblem: what a check has found is shown before a message is tried.
func TestRoomProblem(t *testing.T) {
	w := newWorld(t, nil)
	w.hs.Has(matrix.RoomInfo{RoomID: "!read:example.org", Name: "Read only", Joined: true})
	in, readOnly := named("a"), "!read:example.org"
	in.Room = &readOnly
	w.app(in)
	w.want("check everything", w.manage("GET", "/doctor", ""), 200)
	shown := w.manage("GET", "/application/1", "")
	w.want("application", shown, 200, "room_name", "Read only")
	if problem := fmt.Sprint(shown.fields["room_problem"]); !strings.Contains(problem, "may not write") {
		t.Errorf("room_problem is %s", problem)
	}
}

// TestBareText: a body that is the message itself, as curl sends it, in UTF-8 or Latin-1.
func TestBareText(t *testing.T) {
	w := newWorld(t, nil)
	bearer := "Authorization: Bearer " + w.app(named("a")).Token
	for i, tt := range []struct {
		name, body string
		headers    []string
		want       string
	}{
		{"curl -d hi", "hi *there*", []string{isForm}, "hi there"},
		{"text/plain", "a=b *c*", []string{"Content-Type: text/plain"}, "a=b *c*"},
		{"text/markdown", "a=b *c*", []string{"Content-Type: text/markdown; charset=UTF-8"}, "a=b c"},
		{"Latin-1", "Gr\xfc\xdfe", []string{"Content-Type: text/plain; charset=latin-1"}, "Grüße"},
		{"JSON in Latin-1", "{\"message\":\"Gr\xfc\xdfe\"}", []string{"Content-Type: application/json; charset=ISO-8859-1"}, "Grüße"},
		{"a form in Latin-1", "message=Gr%FC%DFe", []string{isForm + "; charset=iso-8859-1"}, "Grüße"},
	} {
		w.want(tt.name, w.ask("POST", "/message", tt.body, append(tt.headers, bearer)...), 200)
		if body, _ := w.seen(i + 1); body != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, body, tt.want)
		}
	}
	for name, r := range map[string]reply{
		"another character set":       w.ask("POST", "/message", "x", bearer, "Content-Type: text/plain; charset=koi8-r"),
		"another one of JSON":         w.ask("POST", "/message", `{"message":"x"}`, bearer, "Content-Type: application/json; charset=utf-16"),
		"a form without the message":  w.ask("POST", "/message", "Backup=done", bearer, isForm),
		"neither a form nor anything": w.ask("POST", "/message", "<x/>", bearer, "Content-Type: text/xml"),
	} {
		if text, _ := r.fields["errorDescription"].(string); r.status/100 != 4 || !strings.Contains(text, "send UTF-8") && !strings.Contains(text, `{"message": "text"}`) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// TestMessageWithoutCredentials: what needs a login says so, what a path does not know is told alike with and without.
func TestMessageWithoutCredentials(t *testing.T) {
	w := newWorld(t, nil)
	for _, headers := range [][]string{nil, {basicHeader("admin", "wrong")}, {"X-Gotify-Key: Awrong"}} {
		for method, status := range map[string]int{"GET": 401, "HEAD": 401, "PUT": 405, "PATCH": 405, "DELETE": 401} {
			r := w.ask(method, "/message", "", headers...)
			if r.status != status || status == 401 && r.header.Get("WWW-Authenticate") == "" || status == 405 && r.header.Get("Allow") != "DELETE, GET, HEAD, POST" {
				t.Errorf("%s with %q: %d, WWW-Authenticate %q, Allow %q", method, headers, r.status, r.header.Get("WWW-Authenticate"), r.header.Get("Allow"))
			}
		}
	}
}

// TestLongMessages: a long message is its beginning and a file, as a look at it says.
func TestLongMessages(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	send := func(text string) reply {
		return w.ask("POST", "/message?wait=5s", `{"token":"`+token+`","message":"`+text+`"}`)
	}
	w.want("short", send("m"), 200, "file", nil)
	w.want("long", send(strings.Repeat(`- item **x**\n`, 1700)), 200, "file", nil, "status", "sent")
	w.want("later", w.ask("GET", "/message/2", "", "X-Gotify-Key: "+token), 200, "file", true)
	if body, html := w.seen(2); !strings.HasPrefix(body, "• item x") || !strings.HasPrefix(html, "<ul>") {
		t.Errorf("the event begins %.20q, %.20q", body, html)
	}
	if body, _ := w.seen(3); body != "message.md" {
		t.Errorf("behind it is %q", body)
	}
}
